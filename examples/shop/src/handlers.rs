//! What the shop does, and how often.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequestParts, Json, Path};
use axum::http::header;
use axum::http::request::Parts;
use limiter::web::ClientAddress;
use limiter::{Rejected, rate_limit};
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Order {
    user: String,
    item: String,
}

/// Each user may order three times in four seconds, whatever the address. Admins are not limited.
#[rate_limit(name = "orders", key = "order.user", qps = 3, window = "4s", unless = "caller.is_admin")]
pub(crate) async fn order(caller: Caller, Json(order): Json<Order>) -> Result<String, Rejected> {
    Ok(format!("{} ordered {}\n", order.user, order.item))
}

/// Each address may try five times in a minute, whoever it says it is.
#[rate_limit(name = "login", key = "client", qps = 5, window = "1m")]
pub(crate) async fn login(client: ClientAddress) -> Result<String, Rejected> {
    Ok(format!("hello {client}\n"))
}

/// One report at a time, two in a second, for all users together. Who comes too early waits, three seconds at the most.
#[rate_limit(name = "report", strategy = "leaky_bucket", qps = 2, burst = 1, wait = "3s")]
pub(crate) async fn report() -> Result<String, Rejected> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok("all is well\n".into())
}

/// The supplier is asked for the price of an item once in two seconds; in between, the last answer has to do.
#[rate_limit(name = "price", key = "item", qps = 1, window = "2s", fallback = "last_price")]
pub(crate) async fn price(Path(item): Path<String>) -> String {
    let price = format!("{item} costs {} cents\n", 100 + item.len());
    PRICES.lock().unwrap_or_else(PoisonError::into_inner).insert(item, price.clone());
    price
}

fn last_price(Path(item): Path<String>, why: Rejected) -> String {
    let prices = PRICES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = prices.get(&item).map(|price| format!("{} (as last heard)\n", price.trim_end()));
    known.unwrap_or_else(|| format!("nobody knows yet: {why}\n"))
}

static PRICES: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

/// Who asks: an admin, or anybody.
pub(crate) struct Caller {
    is_admin: bool,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let token = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer "));
        Ok(Self { is_admin: token.is_some_and(|token| ADMIN_TOKEN.as_deref() == Some(token)) })
    }
}

static ADMIN_TOKEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("ADMIN_TOKEN").ok());
