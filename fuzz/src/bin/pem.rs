//! The fuzz target `pem`; without instrumentation it reads the files that it is given.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| oneseal_fuzz::pem(input));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    oneseal_fuzz::replay(oneseal_fuzz::pem)
}
