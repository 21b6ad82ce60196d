//! A small web service with rate limits. It needs nothing installed:
//!
//! `cargo run -p shop`
//!
//! | option | |
//! | --- | --- |
//! | `--listen ADDRESS` | where it listens, 127.0.0.1:3000 unless told otherwise |
//! | `--redis URL` | share the limits with all other instances on this Redis |
//! | `--proxies NETWORK` | believe `X-Forwarded-For` from there, such as 10.0.0.0/8 |
//!
//! Whoever sends `authorization: Bearer` and the value of the variable `ADMIN_TOKEN` may order as often as they like.

mod handlers;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Extension;
use axum::routing::{get, post};
use limiter::web::{RateLimitFields, TrustedProxies};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read(std::env::args().skip(1))?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let metrics = PrometheusBuilder::new().set_buckets(&[0.001, 0.01, 0.1, 1.0, 10.0])?.install_recorder()?;
    limiter::describe_metrics();

    // The one line by which limits are shared.
    if let Some(url) = &options.redis {
        limiter::install(limiter::RedisLimiter::connect(url).await?)?;
    }
    for site in limiter::sites() {
        println!("{:<7} {:?}", site.rule().name(), site.rule().quotas());
    }
    let listener = TcpListener::bind(options.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let shop = router(metrics, options.proxies).into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, shop).await?)
}

fn router(metrics: PrometheusHandle, proxies: TrustedProxies) -> Router {
    Router::new()
        .route("/orders", post(handlers::order))
        .route("/login", post(handlers::login))
        .route("/report", get(handlers::report))
        .route("/price/{item}", get(handlers::price))
        .route("/metrics", get(|| async move { metrics.render() }))
        .layer(RateLimitFields::new().x_rate_limit())
        .layer(Extension(proxies))
}

struct Options {
    listen: SocketAddr,
    redis: Option<String>,
    proxies: TrustedProxies,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut listen, mut redis, mut proxies) =
            (SocketAddr::from(([127, 0, 0, 1], 3000)), None, Vec::new());
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{option} needs a value"));
            match option.as_str() {
                "--listen" => listen = value()?.parse()?,
                "--redis" => redis = Some(value()?),
                "--proxies" => proxies.push(value()?),
                _ => return Err(format!("unknown option {option:?}").into()),
            }
        }
        Ok(Self { listen, redis, proxies: TrustedProxies::x_forwarded_for(proxies)? })
    }
}
