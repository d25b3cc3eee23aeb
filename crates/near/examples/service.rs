//! A web service that reads users through a near cache: axum in front, Redis or Cellar behind.
//!
//! ```text
//! cargo run --package cellar-near --example service -- redis://127.0.0.1:6379 127.0.0.1:3000
//! curl -X PUT -H 'Content-Type: application/json' -d '{"name":"Ada"}' 127.0.0.1:3000/users/7
//! curl 127.0.0.1:3000/users/7
//! curl 127.0.0.1:3000/stats
//! ```

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error, Near, codec};

/// What the service knows of a user.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct User {
    name: String,
}

/// Shared by all requests: cloning it costs one atomic addition.
type Users = Near<u64, User>;

async fn read(State(users): State<Users>, Path(id): Path<u64>) -> Response {
    match users.get(&id).await {
        // The value is written into the response from where it lies in the cache.
        Ok(Some(user)) => Json(&*user).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => unavailable(&error),
    }
}

async fn write(
    State(users): State<Users>,
    Path(id): Path<u64>,
    Json(user): Json<User>,
) -> Response {
    match users.set(&id, &user).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => unavailable(&error),
    }
}

async fn stats(State(users): State<Users>) -> String {
    format!("{:#?}\n", users.stats())
}

fn unavailable(error: &Error) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let server = next("redis://127.0.0.1:6379");
    let address = next("127.0.0.1:3000");
    let origin = Remote::new(Redis::open(server)?, codec::Json).prefix("user:");
    let users: Users = Near::builder(origin)
        .entries_max(100_000)
        .negative_ttl(Duration::from_secs(5))
        // When the server is away, what was read in the last minute is better than an error.
        .serve_stale(Duration::from_secs(60))
        .build();
    let service = Router::new()
        .route("/users/{id}", get(read).put(write))
        .route("/stats", get(stats))
        .with_state(users);
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening at {}", listener.local_addr()?);
    axum::serve(listener, service).await?;
    Ok(())
}
