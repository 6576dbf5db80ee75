//! The top of the command line and the boot gate by golden files: what they print, and how they end.
//! `TRYCMD=overwrite` writes the files anew.

#[test]
fn the_command_line_says_what_its_files_say() {
    let cases = trycmd::TestCases::new();
    cases.env("COLUMNS", "100");
    for name in ["top", "gate", "help"] {
        cases.case(format!("tests/cmd/{name}.trycmd"));
    }
}
