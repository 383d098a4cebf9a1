//! Pure: text to a [`Condition`]. What is not in the subset is an error that says what is.

use regex::Regex;

use super::condition::{Comparison, Condition, Operand, Scalar};
use super::paths::{Context, enumerated, path};

/// Parentheses and `not` may nest so deep.
const DEPTH_MAX: usize = 50;

/// Reads one condition about items of a kind.
pub(super) fn parse(text: &str, context: Context) -> Result<Condition, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, context, depth: 0 };
    let condition = parser.any()?;
    match parser.peek() {
        None => Ok(condition),
        Some(token) => Err(format!("unexpected `{}`; join conditions with `and` or `or`", token.text())),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Number(String),
    Sign(&'static str),
}

impl Token {
    fn text(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => text.clone(),
            Self::Text(text) => format!("{text:?}"),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

const SIGNS: [&str; 11] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else if first == '"' {
            let (value, tail) = quoted(&rest[1..])?;
            tokens.push(Token::Text(value));
            rest = tail;
        } else if first.is_ascii_digit() || (first == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            let end = rest[1..].find(|c: char| !(c.is_ascii_digit() || c == '.')).map_or(rest.len(), |end| end + 1);
            tokens.push(Token::Number(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            return Err(format!("unexpected `{first}`"));
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// The text up to the closing quote, with `\"`, `\\`, `\n` and `\t` resolved; other backslashes stay, as
/// regular expressions want them.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err("a quote is not closed".into())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    context: Context,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn take_word(&mut self, word: &str) -> bool {
        let here = matches!(self.peek(), Some(Token::Word(text)) if text == word);
        self.at += usize::from(here);
        here
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let here = matches!(self.peek(), Some(Token::Sign(text)) if *text == sign);
        self.at += usize::from(here);
        here
    }

    fn expect_sign(&mut self, sign: &str) -> Result<(), String> {
        if self.take_sign(sign) {
            return Ok(());
        }
        let found = self.peek().map_or_else(|| "the end".to_owned(), |token| format!("`{}`", token.text()));
        Err(format!("expected `{sign}` instead of {found}"))
    }

    fn any(&mut self) -> Result<Condition, String> {
        let first = self.all()?;
        let mut parts = vec![first];
        while self.take_word("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let first = self.one()?;
        let mut parts = vec![first];
        while self.take_word("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
    }

    fn one(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        let condition = if self.take_word("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.take_sign("(") {
            let inner = self.any()?;
            self.expect_sign(")")?;
            inner
        } else if self.take_word("IsMatch") {
            self.is_match()?
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn is_match(&mut self) -> Result<Condition, String> {
        self.expect_sign("(")?;
        let operand = self.operand()?;
        self.expect_sign(",")?;
        let Some(Token::Text(pattern)) = self.next() else {
            return Err("IsMatch needs a quoted regular expression as its second argument".into());
        };
        self.expect_sign(")")?;
        let pattern = Regex::new(&pattern).map_err(|error| error.to_string().replace('\n', " "))?;
        Ok(Condition::IsMatch(operand, pattern))
    }

    fn comparison(&mut self) -> Result<Condition, String> {
        let left = self.operand()?;
        let comparison = match self.peek() {
            Some(Token::Sign("==")) => Comparison::Equal,
            Some(Token::Sign("!=")) => Comparison::NotEqual,
            Some(Token::Sign("<")) => Comparison::Less,
            Some(Token::Sign("<=")) => Comparison::LessOrEqual,
            Some(Token::Sign(">")) => Comparison::Greater,
            Some(Token::Sign(">=")) => Comparison::GreaterOrEqual,
            _ => {
                return match left {
                    Operand::Literal(Scalar::Bool(holds)) => Ok(Condition::Fixed(holds)),
                    _ => Err("expected a comparison: ==, !=, <, <=, > or >=".into()),
                };
            }
        };
        self.at += 1;
        Ok(Condition::Compare(left, comparison, self.operand()?))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let literal = |value| Ok(Operand::Literal(value));
        match self.next() {
            Some(Token::Text(text)) => literal(Scalar::Text(text)),
            Some(Token::Number(text)) => match text.parse::<i64>() {
                Ok(number) => literal(Scalar::Int(number)),
                Err(_) => text
                    .parse()
                    .map_or_else(|_| Err(format!("`{text}` is not a number")), |n| literal(Scalar::Double(n))),
            },
            Some(Token::Word(word)) => match word.as_str() {
                "true" => literal(Scalar::Bool(true)),
                "false" => literal(Scalar::Bool(false)),
                "nil" => literal(Scalar::Nil),
                word => self.word(word),
            },
            Some(token) => Err(format!("unexpected `{}`", token.text())),
            None => Err("the condition ends too early".into()),
        }
    }

    fn word(&mut self, word: &str) -> Result<Operand, String> {
        if matches!(self.peek(), Some(Token::Sign("("))) {
            return Err(format!("the function `{word}` is not supported; there is IsMatch(path, \"regex\")"));
        }
        if let Some(number) = enumerated(word) {
            return Ok(Operand::Literal(Scalar::Int(number)));
        }
        let mut key = None;
        if self.take_sign("[") {
            let Some(Token::Text(text)) = self.next() else {
                return Err(format!("`{word}[` needs a quoted key"));
            };
            self.expect_sign("]")?;
            key = Some(text);
        }
        path(word, key, self.context).map(Operand::Path)
    }
}
