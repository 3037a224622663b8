//! Reads the text of a statement: the key and the columns of a write, and the rows that a query asks for.

pub(super) fn is_insert(sql: &str) -> bool {
    sql.starts_with("INSERT INTO ")
}

/// The number of parameters, from the first, that identify the row that may be there already: no statement takes one
/// twice.
pub(super) fn conflict(sql: &str) -> usize {
    let keys = sql
        .split_once(" ON CONFLICT (")
        .and_then(|(_, rest)| rest.split(')').next());
    keys.map_or(0, |keys| keys.split(',').count())
}

/// The columns of an insert, and the value of each.
pub(super) fn inserted(sql: &str) -> Vec<(&str, &str)> {
    let parts = sql.split_once('(').and_then(|(_, rest)| {
        let (columns, rest) = rest.split_once(") VALUES (")?;
        let (values, _) = rest.split_once(')')?;
        Some(columns.split(", ").zip(values.split(", ")))
    });
    parts.into_iter().flatten().collect()
}

/// The columns that an insert changes where the row is there already, if each becomes the inserted value, whatever it was.
pub(super) fn last_changes(sql: &str) -> Option<Vec<&str>> {
    let (_, changes) = sql.split_once(" DO UPDATE SET ")?;
    let changes = changes.split(", ").map(|change| {
        let (column, value) = change.split_once(" = ")?;
        let is_last = value.strip_prefix("excluded.") == Some(column) || value == "NULL";
        is_last.then_some(column)
    });
    changes.collect()
}

/// The one table that a query asks, and the columns that equal a parameter, by its number, in every row it finds.
pub(super) struct AskedRows<'a> {
    pub(super) table: &'a str,
    pub(super) equal: Vec<(&'a str, usize)>,
}

/// The text of a subject that the journal alone keeps: of an event that was written together with the subject's row.
const OF_LAST_CHANGE: &str =
    "(SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)";

impl<'a> AskedRows<'a> {
    /// Reads the rows that a query asks for; none when the query asks more than one table, or has alternatives.
    pub(super) fn by(query: &'a str) -> Option<Self> {
        let query = match query.split_once(OF_LAST_CHANGE) {
            Some((_, rest)) => rest,
            None => query.strip_prefix("SELECT ")?,
        };
        let (_, asked) = query.split_once(" FROM ")?;
        let (table, conditions) = asked.split_once(" WHERE ")?;
        if table.contains([' ', '(', ',']) || query.contains("SELECT ") {
            return None;
        }
        let (mut depth, mut equal) = (0, Vec::new());
        for condition in conditions.split(" AND ") {
            let is_outside = depth == 0;
            depth += condition.matches('(').count();
            depth = depth.checked_sub(condition.matches(')').count())?;
            if !is_outside || condition.starts_with('(') {
                continue;
            }
            if condition.contains(" OR ") {
                return None;
            }
            let mut words = condition.split(' ');
            if let (Some(column), Some("="), Some(value)) =
                (words.next(), words.next(), words.next())
                && let Some(number) = value.strip_prefix('?').and_then(|it| it.parse().ok())
            {
                equal.push((column, number));
            }
        }
        Some(Self { table, equal })
    }
}
