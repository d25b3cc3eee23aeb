//! One node: its address and the link to it, opened when it is needed.

use std::sync::Arc;
use std::time::Duration;

use redis::Client;
use tokio::sync::Mutex;

use super::RedisSettings;
use super::link::Link;
use crate::read_through::error::Error;
use crate::read_through::origin::Listener;
use crate::read_through::trust::ClusterNode;

/// How long no connection is tried after a failed one.
const PAUSE: Duration = Duration::from_millis(100);

/// A server, and the link to it if there is one.
pub(super) struct Node {
    client: Client,
    settings: RedisSettings,
    listener: Arc<dyn Listener<[u8]>>,
    /// Which of a cluster's nodes it is, if it is one.
    place: Option<ClusterNode>,
    state: Mutex<NodeState>,
}

enum NodeState {
    Unconnected,
    Connected(Arc<Link>),
    Refused { until: Duration, error: Error },
}

impl Node {
    pub(super) fn new(
        client: Client,
        settings: RedisSettings,
        listener: &Arc<dyn Listener<[u8]>>,
        place: Option<ClusterNode>,
    ) -> Arc<Node> {
        Arc::new(Node {
            client,
            settings,
            listener: Arc::clone(listener),
            place,
            state: Mutex::new(NodeState::Unconnected),
        })
    }

    /// The link; a new one if there is none or it is lost.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Error> {
        let mut state = self.state.lock().await;
        match &*state {
            NodeState::Connected(link) if !link.is_lost() => return Ok(Arc::clone(link)),
            NodeState::Refused { until, error } if self.listener.now() < *until => {
                return Err(error.clone());
            }
            _ => {}
        }
        *state = NodeState::Unconnected;
        let opening = Link::open(
            &self.client,
            self.settings.clone(),
            Arc::clone(&self.listener),
            self.place.clone(),
        );
        let opened = opening.await;
        *state = match &opened {
            Ok(link) => NodeState::Connected(Arc::clone(link)),
            Err(error) => NodeState::Refused {
                until: self.listener.now().saturating_add(PAUSE),
                error: error.clone(),
            },
        };
        opened
    }

    /// Whether it has a link, or is about to.
    pub(super) fn is_connected(&self) -> bool {
        match self.state.try_lock() {
            Ok(state) => matches!(&*state, NodeState::Connected(link) if !link.is_lost()),
            Err(_) => true,
        }
    }

    /// Its number among the nodes of its cluster; 0 outside of one.
    pub(super) fn number(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.number)
    }
}
