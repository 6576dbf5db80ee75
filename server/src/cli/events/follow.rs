//! `oneseal events follow`: events as they happen.

use std::io::{self, ErrorKind, Write as _};

use oneseal_coordination::events::{Cursor, Delivery, Follower, From, Subscription};
use tokio::signal::ctrl_c;
use tokio_util::sync::CancellationToken;

use super::super::Globals;
use crate::exit::{Exit, Failure};
use crate::output;

/// Which events.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Begin after this event: its number, or its id such as 41-9f86d081; 0 is before the first [default: what happens
    /// from now on]
    #[arg(long, value_name = "ID")]
    after: Option<Cursor>,
}

/// Prints them, a line each.
///
/// # Errors
/// The log is broken (1), or standard output cannot be written.
pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let follower = Follower::new(super::open(globals)?);
    let mut subscription = follower.subscribe(args.after.map_or(From::Now, From::Cursor));
    let stop = CancellationToken::new();
    tokio::select! {
        // Whichever ends first ends it; what was not printed is still in the log.
        ended = print_all(&mut subscription) => ended,
        () = follower.run(stop) => Ok(Exit::Done),
        signal = ctrl_c() => {
            signal.map_err(|error| Failure::internal("signals cannot be listened to").because(error))?;
            Ok(Exit::Done)
        }
    }
}

async fn print_all(subscription: &mut Subscription) -> Result<Exit, Failure> {
    while let Some(delivery) = subscription.next().await {
        match delivery {
            Delivery::Event(event) => {
                let mut stdout = io::stdout().lock();
                let written = writeln!(stdout, "{}", event.line()).and_then(|()| stdout.flush());
                match written {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Done),
                    written => output::told(written)?,
                }
            }
            Delivery::Reset(reset) => output::complain(&format!(
                "oneseal: the log does not go on from there ({}); all that is kept follows, after {}",
                reset.reason.as_str(),
                reset.floor.cursor()
            )),
            Delivery::Broken(broken) => return Err(super::no(&broken)),
            _ => {}
        }
    }
    Ok(Exit::Done)
}
