//! A server that gave no answer, and the reason.

#[derive(Clone, Debug)]
pub struct Unreachable {
    /// The reason, as it follows the server's name.
    pub what: String,
    then: Then,
}

#[derive(Clone, Debug)]
enum Then {
    Wait,
    /// Waiting does not help, and this action does.
    Do(&'static str),
    /// The advice in the server's own words.
    Said(String),
}

impl Unreachable {
    /// A server that gave no answer, or is not trusted; with a hint, unless waiting helps.
    pub fn unreached(why: &str, hint: Option<&'static str>) -> Self {
        Self {
            what: format!("cannot be reached: {why}"),
            then: hint.map_or(Then::Wait, Then::Do),
        }
    }

    /// A server that is there, and accepts nothing now: nothing was done.
    pub fn declined(why: &str, hint: Option<String>) -> Self {
        Self {
            what: format!("cannot accept it now: {why}"),
            then: hint.map_or(Then::Wait, Then::Said),
        }
    }

    /// The advice, after the steps done so far.
    pub fn advice(&self, so_far: &str) -> String {
        match &self.then {
            Then::Wait => format!("{so_far}: try again when it is reachable"),
            Then::Do(what) => format!("{so_far}: {what}"),
            Then::Said(hint) => hint.clone(),
        }
    }
}
