//! Reads the variables one by one, in a build that can send traces.

use std::collections::HashMap;
use std::time::Duration;

use flightline::core::redact::shown;
use flightline::remote::VERSION;
use flightline_server::{Sampling, Traces};
use ureq::http::{HeaderName, HeaderValue};

use super::{ENDPOINTS, TraceSettings};
use crate::remote::{Address, trusted};

/// The name of this server, unless a variable says otherwise.
const SERVICE: &str = "flightline";

struct Variables<F> {
    get: F,
    warnings: Vec<String>,
}

/// Reads the variables; `get` gives the value of one that is set.
pub fn traces(get: impl Fn(&str) -> Option<String>) -> TraceSettings {
    let mut variables = Variables {
        get,
        warnings: Vec::new(),
    };
    let found = variables.traces();
    let (traces, to) = found.unzip();
    TraceSettings {
        traces,
        to,
        warnings: variables.warnings,
    }
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn traces(&mut self) -> Option<(Traces, String)> {
        let name = ENDPOINTS
            .into_iter()
            .find(|name| (self.get)(name).is_some())?;
        if (self.get)("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        match (self.get)("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(other) => {
                self.wrong("OTEL_TRACES_EXPORTER", other, "`otlp` or `none`");
                return None;
            }
        }
        let address = Address::parse(&(self.get)(name)?);
        let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
            .into_iter()
            .any(|name| (self.get)(name).is_some());
        let found = address.and_then(|address| {
            let trusted = trusted(&address, named)?;
            Ok((address, trusted))
        });
        let (address, trusted) = match found {
            Ok(found) => found,
            Err(refusal) => {
                let why = refusal.message;
                self.warnings
                    .push(format!("{name}: {why}: no traces are sent"));
                return None;
            }
        };
        // The address for traces is taken as it is; the one for all signals is a prefix.
        let url = match name == ENDPOINTS[0] {
            true => address.of(""),
            false => address.of("/v1/traces"),
        };
        self.check_protocol();
        let to = origin(&url);
        let timeout = self.millis(
            &[
                "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                "OTEL_EXPORTER_OTLP_TIMEOUT",
            ],
            10_000,
        );
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A collector's key is for no other host.
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout))
            .tls_config(trusted)
            .build();
        let traces = Traces {
            url,
            shown: to.clone(),
            agent: ureq::Agent::new_with_config(config),
            headers: self.headers(),
            timeout,
            gzip: self.gzip(),
            resource: self.resource(),
            sampling: self.sampling(),
            queue: self.count("OTEL_BSP_MAX_QUEUE_SIZE", 2_048),
            batch: self.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
            delay: self.millis(&["OTEL_BSP_SCHEDULE_DELAY"], 5_000),
        };
        Some((traces, to))
    }

    /// Finds the first of these variables that is set.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names
            .iter()
            .find_map(|name| Some((*name, (self.get)(name)?)))
    }

    fn wrong(&mut self, name: &str, text: &str, wanted: &str) {
        let text = shown(text);
        self.warnings
            .push(format!("{name} is `{text}`, and not {wanted}"));
    }

    fn check_protocol(&mut self) {
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ];
        if let Some((name, text)) = self
            .first(&names)
            .filter(|(_, text)| text != "http/protobuf")
        {
            self.wrong(name, &text, "`http/protobuf`, the only supported protocol");
        }
    }

    fn gzip(&mut self) -> bool {
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
        ];
        match self.first(&names) {
            Some((_, text)) if text == "gzip" => true,
            Some((name, text)) if text != "none" => {
                self.wrong(name, &text, "`gzip` or `none`");
                false
            }
            _ => false,
        }
    }

    fn millis(&mut self, names: &[&'static str], usual: u64) -> Duration {
        let found = self.first(names);
        let span = found.map(|(name, text)| match text.parse() {
            Ok(span) if span > 0 => span,
            _ => {
                self.wrong(name, &text, "a number of milliseconds");
                usual
            }
        });
        Duration::from_millis(span.unwrap_or(usual))
    }

    fn count(&mut self, name: &'static str, usual: usize) -> usize {
        match (self.get)(name).map(|text| (text.parse(), text)) {
            None => usual,
            // Room for all of them is made at once.
            Some((Ok(count), _)) if (1..=1_000_000).contains(&count) => count,
            Some((_, text)) => {
                self.wrong(name, &text, "a number from 1 to 1000000");
                usual
            }
        }
    }

    /// Reads the headers for the collector. They may hold keys, so no message ever shows them.
    fn headers(&mut self) -> HashMap<String, String> {
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ];
        let Some((name, text)) = self.first(&names) else {
            return HashMap::new();
        };
        let fits = |(name, value): &(String, String)| {
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
        };
        let (good, all) = pairs(&text);
        let count = good.len();
        let headers: HashMap<_, _> = good.into_iter().filter(fits).collect();
        if !all || headers.len() != count {
            self.warnings.push(format!(
                "{name} holds a part that is not a `NAME=VALUE` header: it is ignored"
            ));
        }
        headers
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let told = (self.get)("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let (mut resource, all) = pairs(&told);
        if !all {
            self.wrong("OTEL_RESOURCE_ATTRIBUTES", &told, "`NAME=VALUE,…`");
        }
        let mut say = |name: &str, value: String| {
            if !resource.iter().any(|(known, _)| known == name) {
                resource.push((name.to_owned(), value));
            }
        };
        say("service.version", VERSION.to_owned());
        say("process.pid", std::process::id().to_string());
        let host = rustix::system::uname();
        say("host.name", host.nodename().to_string_lossy().into_owned());
        match (self.get)("OTEL_SERVICE_NAME") {
            Some(name) => {
                resource.retain(|(known, _)| known != "service.name");
                resource.push(("service.name".to_owned(), name));
            }
            None => say("service.name", SERVICE.to_owned()),
        }
        resource
    }

    fn sampling(&mut self) -> Sampling {
        let name = "OTEL_TRACES_SAMPLER";
        let word = (self.get)(name).unwrap_or_else(|| "parentbased_always_on".to_owned());
        let (follows_caller, root) = match word.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, word.as_str()),
        };
        let share = match root {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.share(),
            _ => {
                let known = "`always_on`, `always_off` or `traceidratio`, each perhaps after `parentbased_`";
                self.wrong(name, &word, known);
                return Sampling {
                    share: 1.0,
                    follows_caller: true,
                };
            }
        };
        Sampling {
            share,
            follows_caller,
        }
    }

    fn share(&mut self) -> f64 {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = (self.get)(name) else {
            return 1.0;
        };
        match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => share,
            _ => {
                self.wrong(name, &text, "a share from 0 to 1");
                1.0
            }
        }
    }
}

/// The scheme, host and port of an address: the rest may hold a key.
fn origin(url: &str) -> String {
    let parts: Vec<&str> = url.splitn(4, '/').take(3).collect();
    parts.join("/")
}

/// Parses `a=b,c=d` with `%` before encoded characters, and returns false when a part could not be read.
fn pairs(text: &str) -> (Vec<(String, String)>, bool) {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let read = parts.map(|part| {
        let (name, value) = part.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then_some((decoded(name)?, decoded(value.trim())?))
    });
    let read: Vec<Option<_>> = read.collect();
    let all = read.iter().all(Option::is_some);
    (read.into_iter().flatten().collect(), all)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?
            }
            (b'%', _) => return None,
            (other, _) => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(set: &[(&str, &str)]) -> TraceSettings {
        traces(|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    #[test]
    fn nothing_is_sent_unless_somebody_says_where_to() {
        let nothing = told(&[("OTEL_SERVICE_NAME", "it")]);
        assert!(nothing.traces.is_none() && nothing.warnings.is_empty());
        for off in [
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            let nothing = told(&[AT, off]);
            assert!(nothing.traces.is_none() && nothing.warnings.is_empty());
        }
    }

    #[test]
    fn the_address_for_traces_is_taken_as_it_is_and_the_common_one_is_where_they_begin() {
        let url = |set: &[(&str, &str)]| told(set).traces.unwrap().url;
        assert_eq!(url(&[AT]), "http://127.0.0.1:4318/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c.example/in");
        assert_eq!(url(&[AT, own]), "https://c.example/in");
        assert_eq!(told(&[own]).to.as_deref(), Some("https://c.example"));
    }

    #[test]
    fn what_is_sent_along_is_read_and_never_said() {
        let headers = (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-key=a%20b, authorization=Basic%20Zm9v=",
        );
        let good = told(&[AT, headers]);
        assert!(good.warnings.is_empty(), "{:?}", good.warnings);
        let found = good.traces.unwrap().headers;
        assert_eq!(found["x-key"], "a b");
        assert_eq!(found["authorization"], "Basic Zm9v=");
        let bad = told(&[
            AT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "x y=k1,x-z=k2%0a,k3,a=ok"),
        ]);
        let said = bad.warnings.join("\n");
        assert!(said.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{said}");
        assert!(!said.contains("k1") && !said.contains("k3"), "{said}");
        assert_eq!(bad.traces.unwrap().headers.len(), 1);
    }

    #[test]
    fn what_cannot_be_understood_is_said_and_taken_for_not_set() {
        for (name, value) in [
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "tar"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_RESOURCE_ATTRIBUTES", "no"),
        ] {
            let told = told(&[AT, (name, value)]);
            assert_eq!(told.warnings.len(), 1, "{name}: {:?}", told.warnings);
            assert!(told.warnings[0].starts_with(name), "{:?}", told.warnings);
            let traces = told.traces.unwrap();
            assert_eq!(traces.queue, 2_048);
            assert_eq!(traces.timeout, Duration::from_secs(10));
        }
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318"),
        ] {
            let told = told(&[AT, (name, value)]);
            assert!(told.traces.is_none());
            assert_eq!(told.warnings.len(), 1, "{:?}", told.warnings);
        }
    }

    #[test]
    fn who_is_picked_follows_the_standard_names() {
        for (word, arg, share, follows_caller) in [
            ("parentbased_always_on", "", 1.0, true),
            ("always_off", "", 0.0, false),
            ("traceidratio", "0.25", 0.25, false),
            ("parentbased_traceidratio", "0.5", 0.5, true),
            ("traceidratio", "7", 1.0, false),
        ] {
            let arg = ("OTEL_TRACES_SAMPLER_ARG", arg);
            let told = told(&[AT, ("OTEL_TRACES_SAMPLER", word), arg]);
            let expected = Sampling {
                share,
                follows_caller,
            };
            assert_eq!(told.traces.unwrap().sampling, expected, "{word}");
        }
    }

    #[test]
    fn a_server_says_what_it_is() {
        let resource = |set: &[(&str, &str)]| told(set).traces.unwrap().resource;
        let has = |found: &[(String, String)], name: &str, value: &str| {
            found.iter().filter(|(known, _)| known == name).count() == 1
                && found.contains(&(name.to_owned(), value.to_owned()))
        };
        assert!(has(&resource(&[AT]), "service.name", "flightline"));
        let attributes = (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=other,deployment.environment.name=a%2Cb",
        );
        let found = resource(&[AT, attributes]);
        assert!(has(&found, "service.name", "other"), "{found:?}");
        assert!(has(&found, "deployment.environment.name", "a,b"));
        let found = resource(&[AT, attributes, ("OTEL_SERVICE_NAME", "mine")]);
        assert!(has(&found, "service.name", "mine"), "{found:?}");
    }
}
