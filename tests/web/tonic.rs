//! Limits in a service of tonic, asked by a real client, and read by the types that clients use.

use std::time::Duration;

use limiter::web::RateLimitFields;
use limiter::{LocalLimiter, ManualClock, RedisLimiter, rate_limit};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_types::StatusExt as _;

/// What every service of gRPC can be asked, with limits.
struct Checked {
    limiter: LocalLimiter,
    nowhere: RedisLimiter,
}

type Watched = tonic::codegen::BoxStream<HealthCheckResponse>;

#[tonic::async_trait]
impl Health for Checked {
    type WatchStream = Watched;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        limiter::scope(self.limiter.clone(), checked(request.into_inner())).await
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Watched>, Status> {
        limiter::scope(self.nowhere.clone(), watched()).await
    }
}

#[rate_limit(
    name = "checks",
    strategy = "sliding_log",
    key = "service",
    cost = "request.service.len()",
    qps = 9,
    window = "4s"
)]
async fn checked(request: HealthCheckRequest) -> Result<Response<HealthCheckResponse>, Status> {
    Ok(Response::new(HealthCheckResponse { status: 1 }))
}

#[rate_limit(name = "watches", qps = 1, on_error = "deny")]
async fn watched() -> Result<Response<Watched>, Status> {
    Err(Status::unimplemented("nobody watches"))
}

async fn serve() -> (HealthClient<Channel>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let nowhere = RedisLimiter::builder(&url).connect_lazy().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let _silent = silent;
        let service = HealthServer::new(Checked { limiter, nowhere });
        let server = Server::builder().layer(RateLimitFields::new()).add_service(service);
        server.serve_with_incoming(TcpIncoming::from(listener)).await
    });
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    (HealthClient::new(channel), clock)
}

fn request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn a_rejected_call_tells_when_to_come_back() {
    let (mut client, clock) = serve().await;
    for left in [6, 3, 0] {
        let reply = client.check(request("abc")).await.unwrap();
        assert_eq!(reply.metadata().get("ratelimit-policy").unwrap(), "\"checks\";q=9;w=4");
        assert_eq!(*reply.metadata().get("ratelimit").unwrap(), *format!("\"checks\";r={left};t=4"));
    }
    clock.advance(Duration::from_millis(1250));
    let status = client.check(request("abc")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "the limit \"checks\" of 9 per 4s is reached; try again in 2.75s");
    let retry = status.get_details_retry_info().expect("retry information");
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(2750)));
    assert_eq!(status.metadata().get("ratelimit").unwrap(), "\"checks\";r=0;t=3");

    clock.advance(Duration::from_millis(2750));
    assert!(client.check(request("abc")).await.is_ok(), "a client that waited");
}

#[tokio::test]
async fn what_waiting_does_not_help_has_no_time_to_retry() {
    let (mut client, _) = serve().await;
    let status = client.check(request("0123456789")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_retry_info().is_none());
    let status = client.watch(request("abc")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.get_details_retry_info().is_none());
}
