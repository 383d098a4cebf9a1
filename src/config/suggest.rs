//! Pure: the word that was probably meant.

/// The nearest of the known words, if one is near enough to be meant.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.len().max(word.len()) / 3).max(1) && *distance < word.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The known words for a message: all of them while they are few.
pub fn listing<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = known.into_iter().map(|word| format!("`{word}`")).collect();
    match words.len() {
        0 => "none".to_owned(),
        1..=20 => words.join(", "),
        many => format!("{} and {} more", words[..20].join(", "), many - 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_far_ones_not() {
        let known = ["window", "links", "max_spans_per_trace", "id_key"];
        assert_eq!(suggest("windw", known), Some("window"));
        assert_eq!(suggest("maxSpansPerTrace", known), Some("max_spans_per_trace"));
        assert_eq!(suggest("id-key", known), Some("id_key"));
        assert_eq!(suggest("zzzzzz", known), None);
        assert_eq!(suggest("x", known), None);
    }
}
