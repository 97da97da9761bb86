//! `config.json`: the sizes of the model.

use std::path::Path;

use serde::Deserialize;

use crate::files::read_text;
use crate::{Result, wrong};

/// What the forward pass needs to know of a BERT model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Config {
    model_type: String,
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    /// The number of word pieces, the rows of the word embedding table.
    pub vocab_size: usize,
    /// The width of the embeddings and between layers.
    pub hidden_size: usize,
    /// The number of layers.
    pub num_hidden_layers: usize,
    /// The number of attention heads.
    pub num_attention_heads: usize,
    /// The width inside an MLP.
    pub intermediate_size: usize,
    /// The longest sequence of tokens, the rows of the position embedding table.
    pub max_position_embeddings: usize,
    /// The rows of the token type embedding table; the first one is used.
    pub type_vocab_size: usize,
    /// What a layer norm adds to the variance.
    pub layer_norm_eps: f64,
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// If it cannot be read, is not JSON, lacks a value, or describes a model that this program is not written for.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&read_text(path)?).map_err(|error| {
            wrong(format!("{} does not describe a model that this program runs", path.display()))
                .with_source(error)
        })
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let config: Self =
            serde_json::from_str(text).map_err(|error| wrong("it cannot be read").with_source(error))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let words = [
            ("model_type", &self.model_type, "bert"),
            ("hidden_act", &self.hidden_act, "gelu"),
            ("position_embedding_type", &self.position_embedding_type, "absolute"),
        ];
        for (key, got, want) in words {
            if got != want {
                return Err(wrong(format!("{key} is '{got}'; only '{want}' is implemented")));
            }
        }
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("type_vocab_size", self.type_vocab_size),
        ];
        for (key, size) in sizes {
            if size == 0 {
                return Err(wrong(format!("{key} is 0")));
            }
        }
        if self.max_position_embeddings < 2 {
            return Err(wrong(format!(
                "max_position_embeddings is {}: there is no room for [CLS] and [SEP]",
                self.max_position_embeddings
            )));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(wrong(format!(
                "hidden_size {} is not a multiple of num_attention_heads {}",
                self.hidden_size, self.num_attention_heads
            )));
        }
        if !(self.layer_norm_eps.is_finite() && self.layer_norm_eps > 0.0) {
            return Err(wrong(format!(
                "layer_norm_eps is {}; it must be a positive number",
                self.layer_norm_eps
            )));
        }
        Ok(())
    }

    /// Name and shape of every tensor that the forward pass needs.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (hidden, wide) = (self.hidden_size, self.intermediate_size);
        let table = |name: &str, rows| (format!("embeddings.{name}_embeddings.weight"), vec![rows, hidden]);
        let norm = |name: String| ["weight", "bias"].map(|part| (format!("{name}.{part}"), vec![hidden]));
        let linear = |name: String, outputs, inputs| {
            [(format!("{name}.weight"), vec![outputs, inputs]), (format!("{name}.bias"), vec![outputs])]
        };
        let mut all = vec![
            table("word", self.vocab_size),
            table("position", self.max_position_embeddings),
            table("token_type", self.type_vocab_size),
        ];
        all.extend(norm("embeddings.LayerNorm".to_owned()));
        for layer in (0..self.num_hidden_layers).map(|i| format!("encoder.layer.{i}")) {
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                all.extend(linear(format!("{layer}.attention.{part}"), hidden, hidden));
            }
            all.extend(norm(format!("{layer}.attention.output.LayerNorm")));
            all.extend(linear(format!("{layer}.intermediate.dense"), wide, hidden));
            all.extend(linear(format!("{layer}.output.dense"), hidden, wide));
            all.extend(norm(format!("{layer}.output.LayerNorm")));
        }
        all
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A model of two layers that a test can compute in no time; no size is a multiple of another by chance.
    pub(crate) fn tiny() -> Value {
        json!({
            "model_type": "bert",
            "hidden_act": "gelu",
            "vocab_size": 13,
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 6,
            "intermediate_size": 10,
            "max_position_embeddings": 7,
            "type_vocab_size": 2,
            "layer_norm_eps": 1e-12,
        })
    }

    /// A change of one value of [`tiny`]; `null` removes it.
    fn changed(key: &str, value: Value) -> Result<Config> {
        let mut config = tiny();
        let object = config.as_object_mut().unwrap();
        match value {
            Value::Null => object.remove(key),
            value => object.insert(key.to_owned(), value),
        };
        Config::parse(&config.to_string())
    }

    #[test]
    fn the_sizes_are_read() {
        let config = Config::parse(&tiny().to_string()).unwrap();
        assert_eq!((config.hidden_size, config.num_attention_heads, config.vocab_size), (12, 6, 13));
        assert_eq!(changed("position_embedding_type", json!("absolute")).unwrap(), config);
    }

    #[test]
    fn a_wrong_config_is_an_error_that_names_the_value() {
        let check = |key: &str, value: Value, want: &str| {
            let error = changed(key, value).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(want), "{key} gave: {error}");
        };
        check("hidden_size", Value::Null, "missing field");
        check("model_type", json!("gpt2"), "'gpt2'; only 'bert'");
        check("hidden_act", json!("relu"), "'relu'; only 'gelu'");
        check("position_embedding_type", json!("relative_key"), "only 'absolute'");
        check("num_attention_heads", json!(5), "not a multiple");
        check("num_attention_heads", json!(0), "is 0");
        check("num_hidden_layers", json!(0), "is 0");
        check("max_position_embeddings", json!(1), "no room for [CLS]");
        check("layer_norm_eps", json!(0), "positive number");
        assert!(changed("vocab_size", json!(-3)).is_err());
        assert!(changed("vocab_size", json!(1.5)).is_err());
        assert!(Config::parse("{\"model_type\": ").is_err());
        assert!(Config::parse("[]").is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Config::read(Path::new("no/such/config.json")).unwrap_err().to_string();
        assert!(error.contains("no/such/config.json"), "{error}");
    }
}
