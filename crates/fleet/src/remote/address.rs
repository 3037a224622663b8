//! The address of a server.

use std::fmt;
use std::net::IpAddr;

use flightline::core::Refusal;
use flightline::core::redact::shown;

/// The address of a server: scheme, host and port, and perhaps a path that a proxy knows it by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(String);

impl Address {
    /// Parses an address. Refuses anything that does not belong there, such as a password.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let wrong = |why: &str| {
            Refusal::invalid(format!(
                "`{}` is not the address of a server: {why}",
                shown(text)
            ))
            .hint("give one such as `https://fleet.example.com` or `http://127.0.0.1:7878`")
        };
        let text = text.trim().trim_end_matches('/');
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| wrong("it begins with neither `https://` nor `http://`"))?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(wrong("it begins with neither `https://` nor `http://`"));
        }
        let (place, path) = match rest.split_once('/') {
            Some((place, path)) => (place, format!("/{path}")),
            None => (rest, String::new()),
        };
        if place.contains('@') {
            return Err(wrong("a name or password has no place in it"));
        }
        let odd = |c: char| {
            c.is_whitespace() || c.is_control() || !c.is_ascii() || "?#\\\"<>".contains(c)
        };
        if place.is_empty() || place.starts_with(':') || text.contains(odd) {
            return Err(wrong("it cannot be read"));
        }
        Ok(Self(format!(
            "{scheme}://{}{path}",
            place.to_ascii_lowercase()
        )))
    }

    /// Returns true when requests can be read on the way: they leave this machine without encryption.
    pub fn is_open(&self) -> bool {
        self.0.starts_with("http://") && !self.is_loopback()
    }

    fn is_loopback(&self) -> bool {
        let host = self.0.split("://").nth(1).unwrap_or_default();
        let host = host.split('/').next().unwrap_or_default();
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    pub fn of(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    fn open(text: &str) -> bool {
        Address::parse(text).unwrap().is_open()
    }

    #[test]
    fn an_address_is_read_as_it_is_meant() {
        let read = |text| Address::parse(text).unwrap().to_string();
        assert_eq!(read(" HTTP://LocalHost:7878/ "), "http://localhost:7878");
        assert_eq!(
            read("https://fleet.example.com/team/"),
            "https://fleet.example.com/team"
        );
        for wrong in [
            "",
            "fleet.example.com",
            "ftp://fleet.example.com",
            "https://",
            "https://ada:pw@fleet.example.com",
            "https://fleet.example.com/?token=x",
            "https://fleet example.com",
            "http://:80",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_leaves_this_machine_unread_by_others_is_not_open() {
        for safe in [
            "http://127.0.0.1:7878",
            "http://127.8.8.8",
            "http://[::1]:7878",
            "http://localhost",
            "https://fleet.example.com",
        ] {
            assert!(!open(safe), "{safe}");
        }
        for seen in [
            "http://fleet.example.com",
            "http://10.0.0.1:7878",
            "http://localhost.example.com",
            "http://[2001:db8::1]",
        ] {
            assert!(open(seen), "{seen}");
        }
    }
}
