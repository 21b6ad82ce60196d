//! What was written, and where: the options of the attribute, each quoted or bare.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt as _;
use syn::parse::discouraged::Speculative as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, Ident, LitStr, Token};

use crate::errors::Errors;
use crate::suggest;

/// Names each option once: the fields of `Args`, the names it is parsed by, and the names it suggests.
macro_rules! options {
    ($($field:ident $name:literal),+) => {
        #[derive(Default)]
        pub(crate) struct Args {
            $(pub(crate) $field: Option<Value>,)+
            /// How many options could not be read.
            unread: usize,
        }

        impl Args {
            const NAMES: &[&str] = &[$($name),+];

            fn slot(&mut self, name: &str) -> Option<&mut Option<Value>> {
                match name {
                    $($name => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}

options! {
    name "name",
    strategy "strategy",
    key "key",
    qps "qps",
    window "window",
    limits "limits",
    burst "burst",
    samples "samples",
    cost "cost",
    wait "wait",
    fallback "fallback",
    store "store",
    on_error "on_error",
    unless "unless",
    mode "mode",
    decision "decision",
    krate "crate"
}

impl Args {
    pub(crate) fn parse(attribute: TokenStream, errors: &mut Errors) -> Args {
        let mut args = Args::default();
        let options = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = args.option(input) {
                    errors.push(error);
                    until_comma(input)?;
                }
                input.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        };
        let parsed = options.parse2(attribute);
        errors.catch(parsed);
        args
    }

    fn option(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        self.unread += 1;
        let name = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), r#"write options like key = "id", with commas between"#)
        })?;
        let text = name.to_string();
        let valueless = || Error::new(name.span(), format!(r#"write a value: {name} = "...""#));
        if input.peek(Token![==]) || input.peek(Token![=>]) || input.peek(Token![:]) {
            return Err(input.error(format!("write one `=`: {name} = ...")));
        }
        if input.parse::<Option<Token![=]>>()?.is_none() {
            return Err(valueless());
        }
        let value = Value::scan(input)?.ok_or_else(valueless)?;
        if let Some(next) = value.swallowed_option() {
            return Err(Error::new(next.span(), format!("a comma is missing before `{next}`")));
        }
        match self.slot(&text) {
            Some(slot @ None) => *slot = Some(value),
            Some(Some(_)) => {
                return Err(Error::new(name.span(), format!(r#""{name}" is given twice; leave one out"#)));
            }
            None => return Err(Error::new(name.span(), unknown_option(&text))),
        }
        self.unread -= 1;
        Ok(())
    }

    /// Whether all that was written could be read, so that what is missing is truly missing.
    pub(crate) fn all_read(&self) -> bool {
        self.unread == 0
    }
}

/// What other limiters call our options.
const ALIASES: &[(&str, &[&str])] = &[
    ("qps", &["rate", "rps", "permits", "max", "count", "requests", "calls", "tokens"]),
    ("window", &["per", "period", "interval", "duration", "every"]),
    ("burst", &["capacity", "size"]),
    ("cost", &["weight"]),
    ("wait", &["timeout", "max_wait", "block"]),
    ("fallback", &["handler", "or_else", "on_reject", "otherwise"]),
    ("strategy", &["algorithm", "kind"]),
    ("unless", &["skip", "skip_if", "exempt"]),
    ("key", &["by", "limit_key"]),
];

fn unknown_option(written: &str) -> String {
    match ALIASES.iter().find(|(_, aliases)| aliases.contains(&written)) {
        Some((meant, _)) => format!(r#"unknown option "{written}"; it is called "{meant}" here"#),
        None => unknown("option", written, Args::NAMES),
    }
}

/// `unknown option "keys"; did you mean "key"?`, or else all there are.
pub(crate) fn unknown(what: &str, written: &str, names: &[&str]) -> String {
    match suggest::nearest(written, names.iter().copied()) {
        Some(meant) => format!(r#"unknown {what} "{written}"; did you mean "{meant}"?"#),
        None => format!(r#"unknown {what} "{written}"; write {}"#, suggest::alternatives(names)),
    }
}

/// The right side of an option.
pub(crate) enum Value {
    Quoted(LitStr),
    Bare(TokenStream),
}

impl Value {
    /// Takes the tokens up to the next option; none at all are no value.
    fn scan(input: ParseStream<'_>) -> syn::Result<Option<Value>> {
        let ends = |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]);
        let ahead = input.fork();
        if let Ok(quoted) = ahead.parse::<LitStr>()
            && ends(&ahead)
        {
            input.advance_to(&ahead);
            return Ok(Some(Value::Quoted(quoted)));
        }
        // An expression may hold commas that end nothing: `busy::<A, B>`.
        let ahead = input.fork();
        if let Ok(expr) = ahead.parse::<Expr>()
            && ends(&ahead)
        {
            input.advance_to(&ahead);
            return Ok(Some(Value::Bare(expr.into_token_stream())));
        }
        let tokens = until_comma(input)?;
        Ok((!tokens.is_empty()).then_some(Value::Bare(tokens)))
    }

    /// The name of an option that became part of this value, for want of a comma.
    fn swallowed_option(&self) -> Option<Ident> {
        let Value::Bare(tokens) = self else { return None };
        let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
        tokens.windows(2).find_map(|pair| match pair {
            [TokenTree::Ident(name), TokenTree::Punct(equals)]
                if equals.as_char() == '=' && Args::NAMES.contains(&name.to_string().as_str()) =>
            {
                Some(name.clone())
            }
            _ => None,
        })
    }

    /// What stands inside the quotes, or the bare tokens without the spaces that only the lexer put there.
    pub(crate) fn text(&self) -> String {
        match self {
            Value::Quoted(quoted) => quoted.value().trim().to_owned(),
            Value::Bare(tokens) => tokens.to_string().replace(char::is_whitespace, ""),
        }
    }

    /// Reads the value as syntax, all of it at the user's own tokens; `expected` says what it must be.
    pub(crate) fn parse<T: Parse>(&self, expected: impl FnOnce() -> String) -> syn::Result<T> {
        let parsed = match self {
            Value::Quoted(quoted) => quoted.parse(),
            Value::Bare(tokens) => syn::parse2(tokens.clone()),
        };
        parsed.map_err(|_| Error::new_spanned(self, expected()))
    }

    /// The elements of `[a, b]`, of `"a, b"`, or a lone one.
    pub(crate) fn elements(&self) -> syn::Result<Vec<Value>> {
        match self {
            Value::Quoted(quoted) => {
                let text = self.text();
                let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
                let elements = list.split(',').map(str::trim).filter(|element| !element.is_empty());
                Ok(elements.map(|element| Value::Quoted(LitStr::new(element, quoted.span()))).collect())
            }
            Value::Bare(tokens) => match syn::parse2::<Group>(tokens.clone()) {
                Ok(list) if list.delimiter() == Delimiter::Bracket => {
                    let elements = Punctuated::<Value, Token![,]>::parse_terminated.parse2(list.stream())?;
                    Ok(elements.into_iter().collect())
                }
                _ => Ok(vec![Value::Bare(tokens.clone())]),
            },
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Value::Quoted(quoted) => quoted.span(),
            Value::Bare(tokens) => tokens.span(),
        }
    }
}

impl Parse for Value {
    fn parse(input: ParseStream<'_>) -> syn::Result<Value> {
        Value::scan(input)?.ok_or_else(|| input.error("write a value between the commas"))
    }
}

impl ToTokens for Value {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Value::Quoted(quoted) => quoted.to_tokens(tokens),
            Value::Bare(bare) => bare.to_tokens(tokens),
        }
    }
}

fn until_comma(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?.to_tokens(&mut tokens);
    }
    Ok(tokens)
}
