//! Checks `--fields` before anything is written: a name that the answer cannot have is refused while nothing is done.

use flightline::core::Refusal;
use flightline::core::text::closest;
use serde_json::Value;

/// Refuses fields that the outcome of this operation does not have.
pub fn check_outcome(operation: &str, fields: &[String]) -> Result<(), Refusal> {
    if fields.is_empty() {
        return Ok(());
    }
    let root = flightline_server::openapi();
    let described = &root["paths"][format!("/api/v1/ops/{operation}")]["post"];
    let answer = &described["responses"]["200"]["content"]["application/json"]["schema"];
    check(root, answer, fields)
}

/// Refuses fields that an answer of this schema does not have.
pub fn check_answer(schema: &str, fields: &[String]) -> Result<(), Refusal> {
    if fields.is_empty() {
        return Ok(());
    }
    let root = &flightline_server::schemas()[schema];
    check(root, root, fields)
}

fn check(root: &Value, answer: &Value, fields: &[String]) -> Result<(), Refusal> {
    for field in fields {
        let mut at = vec![answer];
        for part in field.split('.') {
            let known = properties(root, &at);
            let next: Vec<&Value> = known
                .iter()
                .filter(|(name, _)| *name == part)
                .map(|(_, value)| *value)
                .collect();
            // A schema without fields allows any: there is nothing to check against.
            if known.is_empty() {
                break;
            }
            if next.is_empty() {
                return Err(unknown(field, part, &known));
            }
            at = next;
        }
    }
    Ok(())
}

fn unknown(field: &str, part: &str, known: &[(&str, &Value)]) -> Refusal {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let meant = closest(part, names.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
    Refusal::invalid(format!("the answer has no field `{field}`")).hint(format!(
        "nothing was done; {meant}it has: {}",
        names.join(", ")
    ))
}

/// The fields that a document of one of these schemas has; of a list, the fields of its elements.
fn properties<'a>(root: &'a Value, schemas: &[&'a Value]) -> Vec<(&'a str, &'a Value)> {
    let mut found = Vec::new();
    let mut open: Vec<&Value> = schemas.to_vec();
    let mut depth = 0;
    while let Some(schema) = open.pop() {
        depth += 1;
        if depth > 200 {
            break;
        }
        if let Some(target) = schema["$ref"]
            .as_str()
            .and_then(|path| path.strip_prefix('#'))
        {
            open.extend(root.pointer(target));
        }
        for name in ["anyOf", "oneOf", "allOf"] {
            open.extend(schema[name].as_array().into_iter().flatten());
        }
        if schema["items"].is_object() {
            open.push(&schema["items"]);
        }
        let own = schema["properties"].as_object().into_iter().flatten();
        found.extend(own.map(|(name, value)| (name.as_str(), value)));
    }
    found
}

#[cfg(test)]
mod tests {
    use flightline::Operation;
    use flightline::sortie::claim::ClaimNext;
    use flightline::sortie::edit::MoveSortie;

    use super::*;

    fn check_of<O: Operation>(fields: &str) -> Result<(), Refusal> {
        let fields: Vec<String> = fields.split(',').map(str::to_owned).collect();
        check_outcome(O::NAME, &fields)
    }

    #[test]
    fn a_field_that_the_outcome_cannot_have_is_refused_beforehand() {
        check_of::<ClaimNext>("owner,sortie.title,sortie.cursor.notes").unwrap();
        check_of::<MoveSortie>("id,title").unwrap();
        let refused = check_of::<ClaimNext>("sortie.titel").unwrap_err();
        assert!(refused.hint.unwrap().contains("did you mean `title`?"));
        assert!(check_of::<MoveSortie>("owner").is_err());
    }
}
