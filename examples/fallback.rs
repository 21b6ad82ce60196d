//! Who answers for a rejected call: a function, or the return type. Every limit here lets one call per minute pass.

use std::time::Duration;

use limiter::{FromRejected, Rejected, rate_limit};

/// The fallback gets the same arguments, and the reason last.
#[rate_limit(qps = 1, window = "1m", fallback = "busy")]
async fn price(article: &str) -> String {
    format!("{article}: 10")
}

fn busy(article: &str, why: Rejected) -> String {
    format!("{article}: no price now, at most {} in {:?}", why.limit(), why.window())
}

/// It may be async, and stand in a module.
#[rate_limit(qps = 1, window = "1m", fallback = "cache::stock")]
async fn stock(article: &str) -> String {
    format!("{article}: 7 left")
}

mod cache {
    pub(crate) async fn stock(article: &str, _: limiter::Rejected) -> String {
        tokio::task::yield_now().await; // here one would ask the cache
        format!("{article}: 7 left, a minute ago")
    }
}

/// Without a fallback the return type answers. A `Result` does, if its error can be made from a `Rejected`.
#[rate_limit(qps = 1, window = "1m")]
async fn order(article: &str) -> Result<String, ShopError> {
    if article.is_empty() {
        return Err(ShopError::NoSuchArticle); // an error of the body never goes to a fallback
    }
    Ok(format!("{article} ordered"))
}

enum ShopError {
    NoSuchArticle,
    Busy { retry_after: Duration },
}

impl From<Rejected> for ShopError {
    fn from(why: Rejected) -> Self {
        Self::Busy { retry_after: why.retry_after().unwrap_or_default() }
    }
}

/// An `Option` is `None`.
#[rate_limit(qps = 1, window = "1m")]
async fn advert() -> Option<&'static str> {
    Some("buy!")
}

/// A type of one's own implements `FromRejected`. This function is not async: it says `store = "local"`.
#[rate_limit(qps = 1, window = "1m", store = "local")]
fn status() -> Status {
    Status(200)
}

struct Status(u16);

impl FromRejected for Status {
    fn from_rejected(_: Rejected) -> Self {
        Self(429)
    }
}

#[tokio::main]
async fn main() {
    for _ in 0..2 {
        println!("price   {}", price("tea").await);
        println!("stock   {}", stock("tea").await);
        match order("tea").await {
            Ok(ordered) => println!("order   {ordered}"),
            Err(ShopError::NoSuchArticle) => println!("order   there is no such article"),
            Err(ShopError::Busy { retry_after }) => println!("order   try again in {retry_after:.0?}"),
        }
        println!("advert  {:?}", advert().await);
        println!("status  {}", status().0);
        println!();
    }
}
