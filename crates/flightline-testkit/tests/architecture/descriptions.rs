//! The descriptions in the API's pages: which they are, and what has none.

use serde_json::Value;

/// Finds the words of a schema or an operation, and what has none. A word that chooses is described with its choice.
pub(super) fn look<'a>(
    value: &'a Value,
    at: &str,
    found: &mut Vec<&'a str>,
    bare: &mut Vec<String>,
) {
    let Value::Object(fields) = value else {
        let items = value.as_array().into_iter().flatten();
        return items.for_each(|item| look(item, at, found, bare));
    };
    let described = fields.get("description").is_some_and(Value::is_string);
    found.extend(fields.get("description").and_then(Value::as_str));
    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            let chooses = at.ends_with("/oneOf")
                && (property.get("const").is_some() || properties.len() == 1);
            if property.get("description").is_none() && !(described && chooses) {
                bare.push(format!("{at}: {name}"));
            }
        }
    }
    if fields.contains_key("in") && !described {
        bare.push(format!("{at}: {}", fields["name"]));
    }
    let summary = fields.get("summary").and_then(Value::as_str);
    let bare_summary = summary.filter(|it| it.split_whitespace().count() < 4);
    bare.extend(bare_summary.map(|it| format!("{at}: {it}")));
    for (name, field) in fields {
        look(field, &format!("{at}/{name}"), found, bare);
    }
}
