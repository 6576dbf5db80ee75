//! The fuzz target `form`; without instrumentation it reads the files that it is given.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(feature = "libfuzzer")]
libfuzzer_sys::fuzz_target!(|input: &[u8]| oneseal_fuzz::form(input));

#[cfg(not(feature = "libfuzzer"))]
fn main() -> std::io::Result<()> {
    oneseal_fuzz::replay(oneseal_fuzz::form)
}
