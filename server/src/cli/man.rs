//! `oneseal man`: the manual pages, made from the same command line that is parsed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use serde_json::json;

use super::pages::{ANY, ENVIRONMENT, Page};
use super::{Globals, command};
use crate::exit::{Exit, Failure};
use crate::{files, output};

/// Which pages, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The verb, such as `keys show`
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Write a page for every verb into this directory, such as /usr/local/share/man/man1; it is made where the one
    /// above it is there
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    out: Option<PathBuf>,
    /// With --out: print one JSON object
    #[arg(long, requires = "out", conflicts_with = "verb")]
    json: bool,
}

/// Prints or writes them.
///
/// # Errors
/// There is no such verb, or a page cannot be written.
pub(crate) async fn run(args: Args, _globals: &Globals) -> Result<Exit, Failure> {
    let Args { verb, out, json } = args;
    let mut root = command();
    root.build();
    let Some(dir) = out else {
        output::print_bytes(&page(find(&root, &verb)?))?;
        return Ok(Exit::Done);
    };
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(files::not_written(&dir, error));
        }
        _ => {}
    }
    let mut written = Vec::new();
    for command in all(&root) {
        let path = dir.join(format!("{}.1", name(command)));
        files::replace(&path, &page(command))?;
        written.push(path);
    }
    told(&dir, &written, json)
}

fn told(dir: &Path, written: &[PathBuf], json: bool) -> Result<Exit, Failure> {
    if json {
        let written: Vec<_> = written.iter().map(|path| path.to_string_lossy()).collect();
        return output::answer(json!({ "written": written }), Exit::Done);
    }
    output::print_line(&format!("wrote {} pages into {}", written.len(), dir.display()))?;
    Ok(Exit::Done)
}

fn find<'a>(root: &'a Command, verb: &[String]) -> Result<&'a Command, Failure> {
    verb.iter().try_fold(root, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
            Failure::usage(format!("there is no such verb; {} has {}", name(command), known.join(", ")))
        })
    })
}

/// The command and everything below it, in the order of the help.
fn all(command: &Command) -> Vec<&Command> {
    let mut commands = vec![command];
    commands.extend(command.get_subcommands().flat_map(all));
    commands
}

/// As a page is called: `oneseal-keys-show`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

fn page(command: &Command) -> Vec<u8> {
    let words = name(command).trim_start_matches("oneseal").replace('-', " ");
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone()).source(format!("oneseal {version}")).manual("oneseal");
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = man
        .render_title(&mut bytes)
        .and_then(|()| man.render_name_section(&mut bytes))
        .and_then(|()| man.render_synopsis_section(&mut bytes))
        .and_then(|()| man.render_description_section(&mut bytes))
        .and_then(|()| man.render_options_section(&mut bytes))
        .and_then(|()| match command.has_subcommands() {
            true => man.render_subcommands_section(&mut bytes),
            false => Ok(()),
        })
        .and_then(|()| ours(command, words.trim()).to_writer(&mut bytes));
    bytes
}

/// The sections that clap knows nothing of.
fn ours(command: &Command, words: &str) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in Page::of(words).map_or_else(|| ANY.to_vec(), Page::exits) {
        roff.control("TP", ["6"]);
        roff.text([bold(code.to_string())]).text([roman(meaning)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (variable, meaning) in ENVIRONMENT {
        roff.control("TP", []);
        roff.text([bold(variable)]).text([roman(meaning)]);
    }
    let examples = Page::of(words).map_or(&[][..], |page| page.examples);
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for line in examples {
        roff.control("PP", []);
        roff.text([roman(format!("$ {line}"))]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let parent = words
        .rsplit_once(' ')
        .map_or("oneseal".to_owned(), |(parent, _)| format!("oneseal-{}", parent.replace(' ', "-")));
    let mut others: Vec<_> =
        command.get_subcommands().map(|command| format!("{}(1)", name(command))).collect();
    if !words.is_empty() {
        others.insert(0, format!("{parent}(1)"));
    }
    roff.text([roman(others.join(", "))]);
    roff
}
