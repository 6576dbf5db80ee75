//! What a bench has to say, on the terminal and in `docs/performance.md`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::machine::{Machine, Meter};
use crate::rounds::Plan;
use crate::verdict::{Target, Verdict};

/// Collected while a bench runs.
#[derive(Debug, Default)]
pub struct Report {
    tables: Vec<Table>,
    verdicts: Vec<Verdict>,
    notes: Vec<String>,
}

/// Absolute figures: of this machine, and of use beside each other alone.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| self.lines().map(|cells| cells[at].chars().count()).max().unwrap_or_default())
            .collect();
        let mut out = format!("{}\n", self.title);
        for cells in self.lines() {
            for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                // The first column is a name, the others are figures.
                let written =
                    if at == 0 { write!(out, "  {cell:<width$}") } else { write!(out, "  {cell:>width$}") };
                written.expect("a String");
            }
            out.push('\n');
        }
        out
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        let rows: String = self.rows.iter().map(|cells| line(cells)).collect();
        format!("{}:\n\n{}{rule}{rows}", self.title, line(&self.columns))
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.columns).chain(&self.rows)
    }
}

impl Report {
    /// Absolute figures, printed at once.
    pub fn table(&mut self, table: Table) {
        print(&table.text());
        self.tables.push(table);
    }

    /// Something that a reader of the figures must know, printed at once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        print(&format!("{note}\n"));
        self.notes.push(note);
    }

    /// A measured figure against its target.
    pub fn verdict(&mut self, name: &str, figure: f64, target: Target) {
        self.verdicts.push(Verdict::measured(name, figure, target));
    }

    /// A target for which there is no figure.
    pub fn not_measured(&mut self, name: &str, why: &str, target: Target) {
        self.verdicts.push(Verdict::not_measured(name, why, target));
    }

    fn markdown(&self, command: &str, machine: &str, others: &str) -> String {
        let mut out = format!("`{command}` — {machine}; {others}.\n\n");
        out.push_str("| what | figure | target | |\n|---|---|---|---|\n");
        for verdict in &self.verdicts {
            writeln!(out, "{}", verdict.row()).expect("a String");
        }
        for table in &self.tables {
            write!(out, "\n{}", table.markdown()).expect("a String");
        }
        for note in &self.notes {
            write!(out, "\n{note}\n").expect("a String");
        }
        out
    }
}

/// The `main` of a bench: runs it as the command line wants it, prints what came of it, and turns that into an exit
/// code. `--quick` makes it short, `--doc` writes its section of `docs/performance.md` anew.
pub fn run(bench: &str, measure: impl FnOnce(Plan, &mut Report)) -> ExitCode {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let plan = if has("--quick") { Plan::QUICK } else { Plan::FULL };
    let machine = Machine::read();
    print(&format!("{bench}: {}\n", machine.line()));
    let meter = Meter::start();
    let mut report = Report::default();
    measure(plan, &mut report);
    let (foreign, stolen) = meter.others();
    let others = format!("other processes used {foreign:.2} cores meanwhile, the host took {stolen:.2}");
    for verdict in &report.verdicts {
        print(&format!("{}\n", verdict.line()));
    }
    print(&format!(
        "{others}{}\n",
        if foreign + stolen > QUIET { ": too many to quote these figures" } else { "" }
    ));
    if has("--doc") {
        let short = if has("--quick") { " -- --quick" } else { "" };
        let command = format!("cargo bench -p oneseal-bench --bench {bench}{short}");
        write_section(bench, &report.markdown(&command, &machine.line(), &others));
    }
    ExitCode::from(u8::from(!report.verdicts.iter().all(Verdict::passes)))
}

/// Puts `section` between the marks of `bench`.
///
/// # Panics
/// If the page or its marks are not there.
fn write_section(bench: &str, section: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "docs", "performance.md"].iter().collect();
    let page = std::fs::read_to_string(&path).expect("docs/performance.md");
    let page = replaced(&page, bench, section)
        .unwrap_or_else(|| panic!("{} has no section {bench}", path.display()));
    std::fs::write(&path, page).expect("docs/performance.md can be written");
}

fn replaced(page: &str, bench: &str, section: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- bench {bench} -->\n"), format!("<!-- end of {bench} -->\n"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{section}{end}{after}"))
}

fn print(text: &str) {
    // Nobody is left to tell when standard output is closed.
    drop(std::io::stdout().lock().write_all(text.as_bytes()));
}

/// Cores. A shell and a monitor use less.
const QUIET: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let page = "a\n<!-- bench x -->\nold\n<!-- end of x -->\nb\n";
        let new = replaced(page, "x", "new\n").expect("marks");
        assert_eq!(new, "a\n<!-- bench x -->\nnew\n<!-- end of x -->\nb\n");
        assert_eq!(replaced(page, "y", "new\n"), None);
    }

    #[test]
    fn tables_are_the_same_on_the_terminal_and_on_the_page() {
        let mut table = Table::new("JWKS 200", &["", "requests/s"]);
        table.row(["ours".to_owned(), "120".to_owned()]);
        assert_eq!(table.text(), "JWKS 200\n        requests/s\n  ours         120\n");
        assert_eq!(table.markdown(), "JWKS 200:\n\n|  | requests/s |\n|---|---|\n| ours | 120 |\n");
    }

    #[test]
    fn the_page_has_a_section_for_every_bench() {
        let manifest = include_str!("../Cargo.toml");
        let page = include_str!("../../docs/performance.md");
        let benches: Vec<_> = manifest
            .split("[[bench]]\nname = \"")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once('"')?.0))
            .collect();
        assert!(benches.len() > 5, "{benches:?}");
        for bench in benches {
            assert!(replaced(page, bench, "").is_some(), "docs/performance.md has no marks for {bench}");
        }
    }
}
