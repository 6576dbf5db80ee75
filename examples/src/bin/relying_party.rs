//! A relying party: checks a token against an issuer it trusts, by discovery over HTTP.
//!
//! ```sh
//! curl -sX POST http://127.0.0.1:8080/pods/build-7 |
//!   cargo run -p oneseal-examples --bin relying_party -- http://127.0.0.1:8080 sts.amazonaws.com
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a small command talks to who runs it")]

use std::error::Error;
use std::process::ExitCode;

use oneseal::IssuerUrl;
use oneseal_relying_party::RelyingParty;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let issuer = IssuerUrl::parse(&args.next().ok_or("which issuer?")?, "first argument")?;
    let audience = args.next().ok_or("which audience?")?;
    let token = std::io::read_to_string(std::io::stdin())?;

    let relying_party = RelyingParty::builder(issuer).audience(audience).build()?;
    match relying_party.verify(token.trim()).await {
        Ok(verified) => {
            println!("{}", serde_json::to_string_pretty(verified.claims.as_map())?);
            Ok(ExitCode::SUCCESS)
        }
        // A token that cannot be judged now is no bad token.
        Err(error) if error.is_unavailable() => {
            eprintln!("try again later: {error}");
            Ok(ExitCode::from(69))
        }
        Err(error) => {
            eprintln!("refused: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}
