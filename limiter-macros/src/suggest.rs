//! "did you mean": the name nearest to one that does not exist.

/// The candidate that `written` was most likely meant to be, if one is near enough.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| is_near(*distance, candidate.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// One slip in three characters, and never every character.
fn is_near(distance: usize, length: usize) -> bool {
    distance < length && distance <= length.max(3) / 3
}

/// `"a", "b" or "c"`
pub(crate) fn alternatives<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{}\"", name.as_ref())).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// How many characters must be put in, taken out, replaced or swapped with their neighbour to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // rows[i][j] is the distance between the first i characters of `a` and the first j of `b`.
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_recognised() {
        let names = ["a", "key", "qps", "fallback", "sliding_window", "sliding_log"];
        let cases = [
            ("keys", Some("key")),
            ("qsp", Some("qps")),
            ("qp", Some("qps")),
            ("falback", Some("fallback")),
            ("SlidingWindow", Some("sliding_window")),
            ("slidinglog", Some("sliding_log")),
            ("colour", None),
            ("", None),
            ("x", None),
        ];
        for (written, meant) in cases {
            assert_eq!(nearest(written, names), meant, "{written}");
        }
    }

    #[test]
    fn distances_count_slips() {
        for (a, b, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0), ("qps", "qsp", 1)]
        {
            assert_eq!(distance(a, b), expected);
            assert_eq!(distance(b, a), expected);
        }
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(&["a"]), r#""a""#);
        assert_eq!(alternatives(&["a", "b", "c"]), r#""a", "b" or "c""#);
    }
}
