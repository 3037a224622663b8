//! Merges two changes of one document: a program's edit of its file, and the changes in the store
//! meanwhile.

use super::json::Json;

/// Merges the changes of `ours` since `base` into `theirs`. Where both changed the same, ours counts.
///
/// Objects are merged key by key. Lists are merged item by item, by the `id` of an item or by its value;
/// a list that has an item twice counts as one value.
pub fn merge(base: &Json, ours: &Json, theirs: &Json) -> Json {
    if ours == base {
        return theirs.clone();
    }
    if theirs == base {
        return ours.clone();
    }
    match (base, ours, theirs) {
        (base, Json::Object(ours), Json::Object(theirs)) => {
            let base = match base {
                Json::Object(fields) => fields.as_slice(),
                _ => &[],
            };
            Json::Object(merge_keyed(base, ours, theirs))
        }
        (base, Json::List(ours), Json::List(theirs)) => {
            let base = match base {
                Json::List(items) => items.as_slice(),
                _ => &[],
            };
            let (Some(base), Some(mine), Some(theirs)) = (keyed(base), keyed(ours), keyed(theirs))
            else {
                return Json::List(ours.clone());
            };
            let merged = merge_keyed(&base, &mine, &theirs).into_iter();
            Json::List(merged.map(|(_, item)| item).collect())
        }
        _ => ours.clone(),
    }
}

/// The items of a list with what each is known by; none when two are known by the same.
fn keyed(items: &[Json]) -> Option<Vec<(String, Json)>> {
    let mut keyed: Vec<(String, Json)> = Vec::with_capacity(items.len());
    for item in items {
        let key = item.get("id").unwrap_or(item).stringify();
        if keyed.iter().any(|(known, _)| *known == key) {
            return None;
        }
        keyed.push((key, item.clone()));
    }
    Some(keyed)
}

fn merge_keyed(
    base: &[(String, Json)],
    ours: &[(String, Json)],
    theirs: &[(String, Json)],
) -> Vec<(String, Json)> {
    let find = |fields: &[(String, Json)], key: &str| {
        let found = fields.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    };
    let mut merged = Vec::with_capacity(theirs.len().max(ours.len()));
    for (key, value) in theirs {
        let merged_value = match (find(base, key), find(ours, key)) {
            (Some(base), Some(ours)) => merge(&base, &ours, value),
            (None, Some(ours)) => merge(&Json::Null, &ours, value),
            // We took it out.
            (Some(_), None) => continue,
            (None, None) => value.clone(),
        };
        merged.push((key.clone(), merged_value));
    }
    for (key, value) in ours {
        // An entry that they removed stays out, unless we changed it.
        let is_news = find(base, key).is_none_or(|base| base != *value);
        if find(theirs, key).is_none() && is_news {
            merged.push((key.clone(), value.clone()));
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, ours: &str, theirs: &str, merged: &str) {
        let json = |text: &str| Json::parse(text).unwrap();
        let found = merge(&json(base), &json(ours), &json(theirs));
        assert_eq!(found.stringify(), json(merged).stringify());
    }

    #[test]
    fn what_one_side_changed_is_changed() {
        check(r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":1}"#, r#"{"a":2}"#);
        check(r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":3}"#, r#"{"a":3}"#);
        check(r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#, r#"{"a":2}"#);
    }

    #[test]
    fn unknown_fields_of_theirs_stay_and_what_is_taken_out_stays_out() {
        check(
            r#"{"a":1,"b":1}"#,
            r#"{"a":2,"b":1}"#,
            r#"{"z":9,"a":1}"#,
            r#"{"z":9,"a":2}"#,
        );
        check(
            r#"{"a":1,"b":1,"c":1}"#,
            r#"{"a":1,"c":2}"#,
            r#"{"a":5,"b":1,"c":1}"#,
            r#"{"a":5,"c":2}"#,
        );
    }

    #[test]
    fn lists_are_merged_by_id_or_by_what_is_in_them() {
        check(
            r#"["a","b"]"#,
            r#"["a","b","mine"]"#,
            r#"["b","theirs"]"#,
            r#"["b","theirs","mine"]"#,
        );
        check(
            r#"[{"id":"x","s":0},{"id":"y","s":0}]"#,
            r#"[{"id":"x","s":1},{"id":"y","s":0}]"#,
            r#"[{"id":"x","s":0,"k":7},{"id":"y","s":2}]"#,
            r#"[{"id":"x","s":1,"k":7},{"id":"y","s":2}]"#,
        );
        check(r#"["a"]"#, r#"["a","a"]"#, r#"["b"]"#, r#"["a","a"]"#);
    }
}
