//! What a person sees: aligned columns, a mark for each verdict, colour where a terminal shows it.

use std::fmt::Write;

use super::round::{Published, Round, Sighting, Survival, short};

/// Whether escape sequences may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// A terminal that shows them.
    Color,
    /// Anything else, and a terminal whose user said so (`NO_COLOR`, <https://no-color.org>).
    Plain,
}

/// The table of one round, with a line end after each line.
pub(crate) fn table(round: &Round, paint: Paint) -> String {
    let expected = round.published();
    let mut rows = vec![heading(round)];
    rows.extend(round.replicas.iter().map(|sighting| replica(sighting, round, expected)));
    rows.push(vec![Cell::plain("issuer"), Cell::default(), Cell::default(), jwks(&round.issuer, expected)]);
    render(&rows, paint)
}

/// How the killed replica came back, in one line.
pub(crate) fn survival(survival: &Survival, before: &Round, paint: Paint) -> String {
    let Survival { number, killed_pid, pid, back_after, old_tokens, .. } = survival;
    let is_same = survival.after.published() == before.published();
    let taken = old_tokens.iter().filter(|verification| verification.refused.is_none()).count();
    let mark = mark(survival.differences(before).is_empty()).painted(paint);
    format!(
        "{mark} kill -9 {killed_pid} (replica {number}): back in {:.2} s as {pid}, {} JWKS, {taken} of {} older tokens \
         verify on it\n",
        back_after.as_secs_f64(),
        if is_same { "the same" } else { "another" },
        old_tokens.len(),
    )
}

/// The last line: all of it in one.
pub(crate) fn summary(round: &Round, survival: Option<&Survival>) -> String {
    let replicas = round.replicas.len();
    let mut line = format!(
        "{}, {} JWKS, {} of {} cross-verifications",
        counted(replicas, "replica"),
        round.distinct(),
        round.verified(),
        round.verifications.len()
    );
    if let Some(survival) = survival {
        line.push_str(if survival.differences(round).is_empty() {
            ", kill -9 survived"
        } else {
            ", kill -9 NOT survived"
        });
    }
    line
}

/// What differs, each in a line of its own.
pub(crate) fn differences(told: &[String], paint: Paint) -> String {
    told.iter().map(|difference| format!("{} {difference}\n", mark(false).painted(paint))).collect()
}

/// `1 replica`, `3 replicas`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn heading(round: &Round) -> Vec<Cell> {
    let mut cells: Vec<_> = ["replica", "pid", "serves on", "JWKS SHA-256", "token of"].map(Cell::dim).into();
    cells.extend(round.replicas.iter().map(|sighting| Cell::dim(sighting.number.to_string())));
    cells
}

fn replica(sighting: &Sighting, round: &Round, expected: Option<&Published>) -> Vec<Cell> {
    let Sighting { number, pid, address, .. } = sighting;
    let mut cells = vec![
        Cell::plain(number.to_string()),
        Cell::plain(pid.to_string()),
        Cell::plain(address.to_string()),
        jwks(&sighting.jwks, expected),
        Cell::dim("verifies"),
    ];
    for other in &round.replicas {
        let verdict = round.verifications.iter().find(|verification| {
            verification.verified_on == *number && verification.minted_on == other.number
        });
        cells.push(verdict.map_or_else(|| Cell::dim("·"), |verdict| mark(verdict.refused.is_none())));
    }
    cells
}

fn jwks(jwks: &Result<Published, String>, expected: Option<&Published>) -> Cell {
    match jwks {
        Ok(published) if Some(published) == expected => Cell::plain(short(&published.digest)),
        Ok(published) => Cell { text: short(&published.digest), tone: Tone::Bad },
        Err(_) => Cell { text: "none".to_owned(), tone: Tone::Bad },
    }
}

fn mark(is_good: bool) -> Cell {
    if is_good {
        Cell { text: "✓".to_owned(), tone: Tone::Good }
    } else {
        Cell { text: "✗".to_owned(), tone: Tone::Bad }
    }
}

#[derive(Clone, Debug, Default)]
struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    fn dim(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Dim }
    }

    fn painted(&self, paint: Paint) -> String {
        let code = match self.tone {
            Tone::Plain => return self.text.clone(),
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
        };
        match paint {
            Paint::Plain => self.text.clone(),
            Paint::Color => format!("\x1b[{code}m{}\x1b[0m", self.text),
        }
    }

    /// In characters; ours are all one column wide.
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum Tone {
    #[default]
    Plain,
    Dim,
    Good,
    Bad,
}

/// Columns as wide as their widest cell, two spaces between, nothing after the last.
fn render(rows: &[Vec<Cell>], paint: Paint) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(&cell.painted(paint));
            if column + 1 < row.len() {
                let gap = widths[column] - cell.width() + 2;
                let _ = write!(text, "{:gap$}", "");
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::round::tests::{good, round, survival as survived};
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let digest = short(&oneseal_keystore::Digest::of(b"good"));
        let lines = [
            "replica  pid  serves on        JWKS SHA-256      token of  1  2  3".to_owned(),
            format!("1        101  127.0.0.1:40000  {digest}  verifies  ·  ✓  ✓"),
            format!("2        102  127.0.0.1:40000  {digest}  verifies  ✓  ·  ✓"),
            format!("3        103  127.0.0.1:40000  {digest}  verifies  ✓  ✓  ·"),
            format!("issuer                         {digest}"),
        ];
        assert_eq!(table(&round(good()), Paint::Plain), lines.join("\n") + "\n");
    }

    #[test]
    fn a_missing_key_set_and_a_refusal_are_marked() {
        let mut round = round(Err("cannot connect".to_owned()));
        round.verifications[0].refused = Some("x".to_owned());
        let text = table(&round, Paint::Plain);
        assert!(text.contains("none") && text.contains('✗'), "{text}");
    }

    #[test]
    fn escapes_are_written_for_a_terminal_alone() {
        let round = round(good());
        let dead = survived(self::round(good()));
        for text in [table(&round, Paint::Plain), survival(&dead, &round, Paint::Plain)] {
            assert!(!text.contains('\x1b'), "{text:?}");
        }
        assert!(table(&round, Paint::Color).contains("\x1b[32m✓\x1b[0m"));
    }

    #[test]
    fn the_summary_says_all_of_it_in_one_line() {
        let round = round(good());
        let survived = survived(self::round(good()));
        assert_eq!(
            summary(&round, Some(&survived)),
            "3 replicas, 1 JWKS, 6 of 6 cross-verifications, kill -9 survived"
        );
        assert_eq!(
            survival(&survived, &round, Paint::Plain),
            "✓ kill -9 102 (replica 2): back in 0.03 s as 202, the same JWKS, 1 of 1 older tokens verify on it\n"
        );
        let mut lost = self::survived(self::round(good()));
        lost.old_tokens[0].refused = Some("unknown kid".to_owned());
        assert!(summary(&round, Some(&lost)).ends_with(", kill -9 NOT survived"));
    }
}
