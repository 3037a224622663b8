//! The contracts of the clients, checked against payloads that they sent.

mod shell;
