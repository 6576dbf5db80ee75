//! `docs/configuration.md`, written and compared by a test: the binary has no use for it.

use super::table::{self, Default, Key, LATER, List, SECTIONS, Section};

/// The page, whole.
pub(crate) fn docs() -> String {
    let mut text = HEAD.to_owned();
    for section in SECTIONS {
        text.push_str(&of_section(section));
    }
    for list in table::lists() {
        text.push_str(&of_list(list));
    }
    text.push_str(LATER_HEAD);
    let later: Vec<_> = LATER.iter().map(|path| format!("`{path}`")).collect();
    text.push_str(&format!("{}.\n", later.join(", ")));
    text
}

fn of_section(section: &Section) -> String {
    of_keys(&format!("[{}]", section.name), section.doc, section.keys)
}

fn of_list(list: &List) -> String {
    of_keys(&format!("[[{}]]", list.name), list.doc, list.keys)
}

fn of_keys(name: &str, doc: &str, keys: &[Key]) -> String {
    let rows: String = keys.iter().map(of_key).collect();
    format!("\n## `{name}`\n{doc}\n\n| key | takes | default | what it does |\n|---|---|---|---|\n{rows}")
}

fn of_key(key: &Key) -> String {
    let default = match key.default {
        Default::Value(literal, why) => format!("`{}`: {why}", literal.toml()),
        Default::Unset(what) => format!("none: {what}"),
        Default::Required(why) => format!("required: {why}"),
    };
    let secret = if key.is_secret() { " (secret)" } else { "" };
    let cells =
        [format!("`{}`", key.name()), format!("{}{secret}", key.kind.words()), default, key.doc.to_owned()];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

const HEAD: &str = "\
# Configuration

<!-- Made from server/src/config/table/rows.rs; a test compares. -->

One TOML file, variables, flags. The strongest source of a key holds: a flag, then a variable, then the file, then the
default. `oneseal config init` writes the file with every key and its default ([oneseal.toml](oneseal.toml)),
`oneseal config schema` prints its [JSON Schema](configuration.schema.json) for editors, `oneseal check` reports every
mistake at once before anything is bound, and `oneseal check --explain` shows what holds and where it came from, with
secrets masked. All mistakes of this page exit with 78.

- **File.** `--config PATH`, else the variable `ONESEAL_CONFIG`, else `/etc/oneseal/oneseal.toml`. A file that is named
  must exist; the last one may be absent. UTF-8, at most 1 MiB. An unknown key is an error.
- **Variables.** `ONESEAL__SECTION__KEY`, two underscores each time, capital letters only: `ONESEAL__ISSUER__URL` is
  `url` of `[issuer]`. Values are written without quotes, lists with commas (`RS256,ES256`) or as TOML in brackets.
  A variable that is set and empty is an empty value, not an absent one.
- **Lists.** Tables of which there may be several, such as `[[admin.tokens]]`, stand in the file with two brackets each. A
  mistake in one is told with the list, the number of the table and the line.
- **Secrets.** A secret can be read from a file that `ONESEAL__SECTION__KEY_FILE` names; one line break at its end is
  dropped.
- **Durations** have a unit: `ms`, `s`, `m`, `h` or `d`, also several: `\"1h 30m\"`.
- **Plain names** are `ONESEAL_CONFIG`, `ONESEAL_LOG` (a log filter such as `info` or `oneseal=debug,warn`) and
  `ONESEAL_WORKERS`, which is unset or empty in this version, as it has no background workers: a name is refused. Any other
  variable that begins with `ONESEAL_` is ignored, with a warning unless it is one of the service links that Kubernetes
  makes for a Service whose name begins with `oneseal`.
";

const LATER_HEAD: &str = "
## Not in this version
These are agreed and not there yet; whoever sets one is told so (`config.not_available`) and not that the key is unknown:
";
