//! The tables: their SQL, and the conversion of rows to types and back.

pub(crate) mod backup;
pub(crate) mod event;
pub(crate) mod overview;
pub(crate) mod project;
pub(crate) mod pulse;
pub(crate) mod request;
pub(crate) mod subject;
pub(crate) mod watch;

/// Names SQL statements, and lists them, so that a test can prepare every one on both engines.
macro_rules! statements {
    ($($name:ident = $sql:expr;)*) => {
        $(const $name: &str = $sql;)*
        /// Every statement of this table.
        pub(crate) const STATEMENTS: &[&str] = &[$($name),*];
    };
}
pub(crate) use statements;

pub(crate) fn all_statements() -> Vec<&'static str> {
    [
        backup::STATEMENTS,
        event::STATEMENTS,
        event::state::STATEMENTS,
        overview::STATEMENTS,
        project::STATEMENTS,
        pulse::STATEMENTS,
        request::STATEMENTS,
        subject::STATEMENTS,
        subject::cut::STATEMENTS,
        watch::STATEMENTS,
        crate::copy::STATEMENTS,
        crate::fleet_counts::STATEMENTS,
        crate::write_cache::STATEMENTS,
        crate::mend::STATEMENTS,
        crate::mend_event::STATEMENTS,
        crate::value_aside::STATEMENTS,
        crate::replay::STATEMENTS,
        crate::stats::STATEMENTS,
        crate::thin::STATEMENTS,
        crate::tx::neighbours::STATEMENTS,
        crate::verify::side_tables::STATEMENTS,
        crate::verify::fold::STATEMENTS,
        crate::verify::journal::STATEMENTS,
    ]
    .concat()
}
