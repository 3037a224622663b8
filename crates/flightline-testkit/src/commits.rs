//! Commits on their way to PostgreSQL, for tests that stand between a store and its server.

/// Knows the commits of one connection: COMMIT itself, and the statement that is a whole write.
#[derive(Debug, Default)]
pub struct Commits {
    /// The names under which that statement is prepared.
    names: Vec<Vec<u8>>,
}

impl Commits {
    /// Returns true when the bytes sent to the server have a commit in them. All bytes have to be given.
    pub fn are_in(&mut self, said: &[u8]) -> bool {
        let text = b"\0WITH ahead ";
        for (at, _) in (0..)
            .zip(said.windows(text.len()))
            .filter(|(_, part)| part == text)
        {
            let begin = said[..at]
                .iter()
                .rposition(|byte| *byte == b's')
                .unwrap_or(at);
            let name = [b"\0", &said[begin..at], b"\0"].concat();
            self.names.push(name);
        }
        let has = |part: &[u8]| said.windows(part.len()).any(|it| it == part);
        has(b"COMMIT\0") || self.names.iter().any(|name| has(name))
    }
}
