//! The values that cross the border to an engine: integers, text, nothing else.

use crate::error::StoreError;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SqlValue {
    Null,
    Int(i64),
    Text(String),
}

impl From<i64> for SqlValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for SqlValue {
    fn from(value: u64) -> Self {
        // Revisions, fences and counters stay far below 2^63.
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for SqlValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Makes a parameter list out of values.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::value::SqlValue::from($value)),*] };
}
pub(crate) use params;

/// Makes a list of owned values, like `params!`.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::value::SqlValue::from($value)),*] };
}
pub(crate) use values;

#[derive(Clone, Debug)]
pub(crate) struct Row(pub(crate) Vec<SqlValue>);

impl Row {
    pub(crate) fn int(&self, at: usize) -> Result<i64, StoreError> {
        self.opt_int(at)?
            .ok_or_else(|| unexpected(at, "an integer", &SqlValue::Null))
    }

    pub(crate) fn opt_int(&self, at: usize) -> Result<Option<i64>, StoreError> {
        match self.0.get(at) {
            Some(SqlValue::Int(value)) => Ok(Some(*value)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(unexpected(
                at,
                "an integer",
                other.unwrap_or(&SqlValue::Null),
            )),
        }
    }

    pub(crate) fn unsigned(&self, at: usize) -> Result<u64, StoreError> {
        let value = self.int(at)?;
        u64::try_from(value)
            .map_err(|_| unexpected(at, "a positive integer", &SqlValue::Int(value)))
    }

    pub(crate) fn opt_unsigned(&self, at: usize) -> Result<Option<u64>, StoreError> {
        self.opt_int(at)?.map(|_| self.unsigned(at)).transpose()
    }

    pub(crate) fn text(&self, at: usize) -> Result<String, StoreError> {
        self.opt_text(at)?
            .ok_or_else(|| unexpected(at, "text", &SqlValue::Null))
    }

    pub(crate) fn opt_text(&self, at: usize) -> Result<Option<String>, StoreError> {
        match self.0.get(at) {
            Some(SqlValue::Text(value)) => Ok(Some(value.clone())),
            Some(SqlValue::Null) => Ok(None),
            other => Err(unexpected(at, "text", other.unwrap_or(&SqlValue::Null))),
        }
    }
}

impl Row {
    /// The text of a column, without a copy: the column is empty afterwards.
    pub(crate) fn take_text(&mut self, at: usize) -> Result<String, StoreError> {
        self.take_opt_text(at)?
            .ok_or_else(|| unexpected(at, "text", &SqlValue::Null))
    }

    /// The text of a column that may have none, without a copy.
    pub(crate) fn take_opt_text(&mut self, at: usize) -> Result<Option<String>, StoreError> {
        match self.0.get_mut(at) {
            Some(SqlValue::Text(value)) => Ok(Some(std::mem::take(value))),
            Some(SqlValue::Null) => Ok(None),
            other => Err(unexpected(
                at,
                "text",
                other.map_or(&SqlValue::Null, |it| it),
            )),
        }
    }
}

fn unexpected(at: usize, wanted: &str, found: &SqlValue) -> StoreError {
    let found = match found {
        SqlValue::Null => "nothing",
        SqlValue::Int(_) => "an integer",
        SqlValue::Text(_) => "text",
    };
    StoreError::Corrupt(format!("column {at} holds {found} where {wanted} belongs"))
}
