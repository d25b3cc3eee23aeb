//! Codecs: typed values to the origin's bytes and back.
//!
//! A value is decoded once, when it is loaded; hits hand out the decoded value.

use crate::read_through::error::Error;

/// How values of type `V` are written as bytes.
pub trait Codec<V>: Send + Sync + 'static {
    /// The bytes of `value`.
    ///
    /// # Errors
    /// [`Error::Codec`] if it cannot be written.
    fn encode(&self, value: &V) -> Result<Vec<u8>, Error>;

    /// The value with these bytes.
    ///
    /// # Errors
    /// [`Error::Codec`] if they are none.
    fn decode(&self, bytes: Vec<u8>) -> Result<V, Error>;
}

/// Bytes and text as they are; decoding copies nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Codec<Vec<u8>> for Plain {
    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, Error> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        Ok(bytes)
    }
}

impl Codec<String> for Plain {
    fn encode(&self, value: &String) -> Result<Vec<u8>, Error> {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<String, Error> {
        String::from_utf8(bytes).map_err(Error::codec)
    }
}

/// Any type that serde knows, as JSON.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

#[cfg(feature = "json")]
impl<V: serde::Serialize + serde::de::DeserializeOwned> Codec<V> for Json {
    fn encode(&self, value: &V) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(value).map_err(Error::codec)
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<V, Error> {
        serde_json::from_slice(&bytes).map_err(Error::codec)
    }
}

/// Any type that serde knows, as MessagePack; structures as maps, so that fields may be added.
#[cfg(feature = "message-pack")]
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagePack;

#[cfg(feature = "message-pack")]
impl<V: serde::Serialize + serde::de::DeserializeOwned> Codec<V> for MessagePack {
    fn encode(&self, value: &V) -> Result<Vec<u8>, Error> {
        rmp_serde::to_vec_named(value).map_err(Error::codec)
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<V, Error> {
        rmp_serde::from_slice(&bytes).map_err(Error::codec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_pass_as_they_are_and_other_bytes_are_no_text() {
        let bytes = Codec::<Vec<u8>>::decode(&Plain, vec![0, 255]).unwrap();
        assert_eq!(bytes, [0, 255]);
        assert_eq!(Codec::<String>::encode(&Plain, &"a".into()).unwrap(), b"a");
        let refused = Codec::<String>::decode(&Plain, vec![0xff]);
        assert!(matches!(refused, Err(Error::Codec(_))));
    }

    #[cfg(all(feature = "json", feature = "message-pack"))]
    #[test]
    fn structures_come_back_from_json_and_from_messagepack() {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct User {
            name: String,
            tags: Vec<u32>,
        }
        fn check(codec: &impl Codec<User>) {
            let user = User {
                name: "Ada".into(),
                tags: vec![1, 2],
            };
            let bytes = codec.encode(&user).unwrap();
            assert_eq!(codec.decode(bytes).unwrap(), user);
            let refused = codec.decode(b"\xc1".to_vec());
            assert!(matches!(refused, Err(Error::Codec(_))));
        }
        check(&Json);
        check(&MessagePack);
    }
}
