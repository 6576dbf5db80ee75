//! What was measured, against what it should be.

/// One line of a bench.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is compared.
    pub name: String,
    /// What came of it.
    pub figure: Figure,
    /// The bound it is held against, and in which direction.
    pub target: Target,
}

/// A measured number, or why there is none.
#[derive(Clone, Debug)]
pub enum Figure {
    /// The number.
    Measured(f64),
    /// What was missing. It is no pass: a goal that nobody looked at is not reached.
    NotMeasured(String),
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The figure must reach this.
    AtLeast(f64),
    /// The figure may be this, and no more.
    AtMost(f64),
    /// The figure must stay below this.
    Below(f64),
    /// It is told and held against nothing.
    None,
}

impl Verdict {
    /// A measured one.
    pub fn measured(name: impl Into<String>, figure: f64, target: Target) -> Self {
        Self { name: name.into(), figure: Figure::Measured(figure), target }
    }

    /// One that could not be measured.
    pub fn not_measured(name: impl Into<String>, why: &str, target: Target) -> Self {
        Self { name: name.into(), figure: Figure::NotMeasured(why.to_owned()), target }
    }

    /// Whether the target is met. What was not measured passes only where nothing was wanted of it.
    pub fn passes(&self) -> bool {
        match (&self.figure, self.target) {
            (_, Target::None) => true,
            (Figure::NotMeasured(_), _) => false,
            (Figure::Measured(figure), Target::AtLeast(bound)) => *figure >= bound,
            (Figure::Measured(figure), Target::AtMost(bound)) => *figure <= bound,
            (Figure::Measured(figure), Target::Below(bound)) => *figure < bound,
        }
    }

    /// One line: name, figure, target, verdict.
    pub fn line(&self) -> String {
        let [figure, bound, verdict] = self.cells();
        format!("{:<66} {figure:>8}  target {bound:<8} {verdict}", self.name)
    }

    /// One row of a Markdown table: the same.
    pub fn row(&self) -> String {
        let [figure, bound, verdict] = self.cells();
        format!("| {} | {figure} | {bound} | {verdict} |", self.name)
    }

    fn cells(&self) -> [String; 3] {
        let figure = match &self.figure {
            Figure::Measured(figure) => format!("{figure:.3}"),
            Figure::NotMeasured(_) => "–".to_owned(),
        };
        let bound = match self.target {
            Target::AtLeast(bound) => format!("≥ {bound}"),
            Target::AtMost(bound) => format!("≤ {bound}"),
            Target::Below(bound) => format!("< {bound}"),
            Target::None => "none".to_owned(),
        };
        let verdict = match (&self.figure, self.target) {
            (Figure::NotMeasured(why), _) => format!("NOT MEASURED: {why}"),
            (_, Target::None) => "told".to_owned(),
            _ if self.passes() => "pass".to_owned(),
            _ => "FAIL".to_owned(),
        };
        [figure, bound, verdict]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_bound_in_its_direction() {
        for (target, good, bad) in [
            (Target::AtLeast(0.9), [0.9, 1.2], [0.899, f64::NAN]),
            (Target::AtMost(0.6), [0.6, 0.1], [0.601, f64::NAN]),
            (Target::Below(40.0), [39.9, 1.0], [40.0, f64::NAN]),
        ] {
            for figure in good {
                assert!(Verdict::measured("x", figure, target).passes(), "{figure} {target:?}");
            }
            for figure in bad {
                assert!(!Verdict::measured("x", figure, target).passes(), "{figure} {target:?}");
            }
        }
    }

    #[test]
    fn what_was_not_measured_says_why_and_does_not_pass() {
        let verdict = Verdict::not_measured("JWKS 200", "nginx is not installed", Target::AtLeast(1.2));
        assert!(!verdict.passes());
        assert!(verdict.line().ends_with("NOT MEASURED: nginx is not installed"), "{}", verdict.line());
        assert!(Verdict::measured("x", 3.0, Target::None).passes());
    }
}
