//! The binary `oneseal`.

fn main() -> std::process::ExitCode {
    oneseal_server::main()
}
