//! What the tests share.

pub(crate) mod attack;
pub(crate) mod cluster_checker;
pub(crate) mod crowd;
pub(crate) mod daemon;
pub(crate) mod etcd;
pub(crate) mod etcd_node;
pub(crate) mod floor;
pub(crate) mod http;
pub(crate) mod network;
pub(crate) mod ports;
pub(crate) mod resident;
pub(crate) mod resp;
pub(crate) mod rows;
pub(crate) mod scripts;
pub(crate) mod session;
pub(crate) mod stubborn;
pub(crate) mod talk;
pub(crate) mod tls;
pub(crate) mod users;
pub(crate) mod vitals;
pub(crate) mod wait;
pub(crate) mod wall;
