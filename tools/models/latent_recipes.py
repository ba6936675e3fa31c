"""The tiny checkpoints with latent attention."""

from __future__ import annotations

from models.recipe import Config, Recipe, variant, without

DEEPSEEK_YARN: Config = {
    "type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
DEEPSEEK: Config = variant(
    "deepseek_v3",
    "DeepseekV3ForCausalLM",
    hidden_size=40,
    num_hidden_layers=3,
    num_key_value_heads=4,
    attention_bias=False,
    q_lora_rank=24,
    kv_lora_rank=20,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=10,
    rope_scaling=DEEPSEEK_YARN,
    moe_intermediate_size=20,
    moe_layer_freq=1,
    first_k_dense_replace=1,
    n_routed_experts=16,
    n_shared_experts=2,
    num_experts_per_tok=4,
    n_group=4,
    topk_group=2,
    topk_method="noaux_tc",
    scoring_func="sigmoid",
    norm_topk_prob=True,
    routed_scaling_factor=1.5,
)
DEEPSEEK_V2: Config = DEEPSEEK | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "topk_method": "group_limited_greedy",
    "scoring_func": "softmax",
    "norm_topk_prob": False,
    "routed_scaling_factor": 3.0,
    "rope_scaling": DEEPSEEK_YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
    "aux_loss_alpha": 0.001,
    "seq_aux": True,
}

LATENT_RECIPES: dict[str, Recipe] = {
    "deepseek_v2": Recipe(
        "latent attention, experts from the two best of four groups, two shared ones, the first layer without; yarn"
        " with both corrections",
        DEEPSEEK_V2,
        "BF16",
        seed=26,
    ),
    "deepseek_v2_lite": Recipe(
        "the same without a latent of queries and groups, in two layers; biases",
        DEEPSEEK_V2
        | {"q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1, "n_shared_experts": 1}
        | {"num_hidden_layers": 2, "first_k_dense_replace": 0, "routed_scaling_factor": 1.0, "attention_bias": True},
        "F16",
        seed=27,
    ),
    "deepseek_v3": Recipe(
        "latent attention, experts chosen from sigmoids with a bias in two of four groups, two shared ones, the first"
        " layer without; yarn with both corrections",
        DEEPSEEK | {"num_nextn_predict_layers": 1, "ep_size": 1},
        "BF16",
        seed=28,
    ),
    "deepseek_v3_plain": Recipe(
        "the same without a latent of queries, groups and scaling of positions, rotary halves in place of pairs,"
        " weights of experts not normalised; biases, tied head",
        without(DEEPSEEK, "rope_scaling")
        | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False, "rope_interleave": False}
        | {"attention_bias": True, "tie_word_embeddings": True, "n_routed_experts": 12, "num_hidden_layers": 2}
        | {"n_shared_experts": 1},
        seed=29,
    ),
}
