# SPDX-License-Identifier: Apache-2.0
"""The models of zoo.py: one for each module of timm, and small configurations of transformers."""

import torch
import vision

vision.define_operators()
import transformers

#: module of timm -> its smallest model, and the sizes of its pictures
TIMM = {
    "beit": ("beit_base_patch16_224", (3, 224, 224)),
    "byoanet": ("halonet_h1", (3, 256, 256)),
    "byobnet": ("test_byobnet", (3, 160, 160)),
    "cait": ("cait_xxs24_224", (3, 224, 224)),
    "coat": ("coat_tiny", (3, 224, 224)),
    "convit": ("convit_tiny", (3, 224, 224)),
    "convmixer": ("convmixer_768_32", (3, 224, 224)),
    "convnext": ("test_convnext", (3, 160, 160)),
    "cpubone": ("cpubone_nano", (3, 224, 224)),
    "crossvit": ("crossvit_tiny_240", (3, 240, 240)),
    "csatv2": ("csatv2", (3, 512, 512)),
    "cspnet": ("cs3darknet_focus_s", (3, 256, 256)),
    "cspnext": ("cspnext_tiny", (3, 224, 224)),
    "davit": ("davit_tiny", (3, 224, 224)),
    "deepseek_vit": ("deepseek_vit_412m", (3, 546, 546)),
    "deit": ("deit_tiny_patch16_224", (3, 224, 224)),
    "densenet": ("densenet121", (3, 224, 224)),
    "dla": ("dla46_c", (3, 224, 224)),
    "dpn": ("dpn48b", (3, 224, 224)),
    "edgenext": ("edgenext_xx_small", (3, 256, 256)),
    "efficientformer": ("efficientformer_l1", (3, 224, 224)),
    "efficientformer_v2": ("efficientformerv2_s0", (3, 224, 224)),
    "efficientnet": ("test_efficientnet", (3, 160, 160)),
    "efficientvim": ("efficientvim_m1", (3, 224, 224)),
    "efficientvit_mit": ("efficientvit_b0", (3, 224, 224)),
    "efficientvit_msra": ("efficientvit_m0", (3, 224, 224)),
    "eva": ("eva02_tiny_patch14_224", (3, 224, 224)),
    "fasternet": ("fasternet_t0", (3, 224, 224)),
    "fastvit": ("fastvit_t8", (3, 256, 256)),
    "focalnet": ("focalnet_tiny_srf", (3, 224, 224)),
    "gcvit": ("gcvit_xxtiny", (3, 224, 224)),
    "gemma4_vit": ("gemma4_vit_167m", (3, 768, 768)),
    "ghostnet": ("ghostnet_050", (3, 224, 224)),
    "hardcorenas": ("hardcorenas_b", (3, 224, 224)),
    "hgnet": ("hgnetv2_b0", (3, 224, 224)),
    "hiera": ("hiera_tiny_224", (3, 224, 224)),
    "hieradet_sam2": ("hieradet_small", (3, 256, 256)),
    "hrnet": ("hrnet_w18_small", (3, 224, 224)),
    "iformer": ("iformer_t", (3, 224, 224)),
    "inception_next": ("inception_next_atto", (3, 224, 224)),
    "inception_resnet_v2": ("inception_resnet_v2", (3, 299, 299)),
    "inception_v3": ("inception_v3", (3, 299, 299)),
    "inception_v4": ("inception_v4", (3, 299, 299)),
    "lcnetv2": ("lcnetv2_small", (3, 224, 224)),
    "levit": ("levit_128", (3, 224, 224)),
    "lowformer": ("lowformer_b0", (3, 224, 224)),
    "mambaout": ("test_mambaout", (3, 160, 160)),
    "maxxvit": ("test_coatnet", (3, 160, 160)),
    "metaformer": ("poolformerv2_s12", (3, 224, 224)),
    "mlp_mixer": ("gmlp_ti16_224", (3, 224, 224)),
    "mobilenetv3": ("mobilenetv3_small_050", (3, 224, 224)),
    "mobilenetv5": ("mobilenetv5_base", (3, 256, 256)),
    "mobilevit": ("mobilevit_xxs", (3, 256, 256)),
    "mvitv2": ("mvitv2_tiny", (3, 224, 224)),
    "naflexvit": ("naflexvit_base_patch16_gap", (3, 384, 384)),
    "nasnet": ("nasnetalarge", (3, 331, 331)),
    "nest": ("nest_tiny", (3, 224, 224)),
    "nextvit": ("nextvit_small", (3, 224, 224)),
    "nfnet": ("test_nfnet", (3, 160, 160)),
    "pit": ("pit_ti_224", (3, 224, 224)),
    "pnasnet": ("pnasnet5large", (3, 331, 331)),
    "pvt_v2": ("pvt_v2_b0", (3, 224, 224)),
    "qwen3_vit": ("qwen3_vit_88m", (3, 768, 768)),
    "rdnet": ("rdnet_tiny", (3, 224, 224)),
    "regnet": ("regnetx_002", (3, 224, 224)),
    "repghost": ("repghostnet_050", (3, 224, 224)),
    "repvit": ("repvit_m1", (3, 224, 224)),
    "res2net": ("res2next50", (3, 224, 224)),
    "resnest": ("resnest14d", (3, 224, 224)),
    "resnet": ("test_resnet", (3, 160, 160)),
    "resnetv2": ("resnetv2_18", (3, 224, 224)),
    "rexnet": ("rexnet_100", (3, 224, 224)),
    "selecsls": ("selecsls42", (3, 224, 224)),
    "senet": ("legacy_seresnet18", (3, 224, 224)),
    "sequencer": ("sequencer2d_s", (3, 224, 224)),
    "shvit": ("shvit_s1", (3, 224, 224)),
    "sknet": ("skresnet18", (3, 224, 224)),
    "starnet": ("starnet_s050", (3, 224, 224)),
    "swiftformer": ("swiftformer_xs", (3, 224, 224)),
    "swin_transformer": ("swin_tiny_patch4_window7_224", (3, 224, 224)),
    "swin_transformer_v2": ("swinv2_tiny_window16_256", (3, 256, 256)),
    "swin_transformer_v2_cr": ("swinv2_cr_tiny_224", (3, 224, 224)),
    "tiny_vit": ("tiny_vit_5m_224", (3, 224, 224)),
    "tnt": ("tnt_s_legacy_patch16_224", (3, 224, 224)),
    "tresnet": ("tresnet_m", (3, 224, 224)),
    "twins": ("twins_svt_small", (3, 224, 224)),
    "vgg": ("vgg11", (3, 224, 224)),
    "visformer": ("visformer_tiny", (3, 224, 224)),
    "vision_transformer": ("test_vit", (3, 160, 160)),
    "vision_transformer_hybrid": ("vit_tiny_r_s16_p8_224", (3, 224, 224)),
    "vision_transformer_relpos": ("test_vit_relpos", (3, 160, 160)),
    "vision_transformer_sam": ("samvit_base_patch16_224", (3, 224, 224)),
    "vitamin": ("vitamin_small_224", (3, 224, 224)),
    "volo": ("volo_d1_224", (3, 224, 224)),
    "vovnet": ("ese_vovnet19b_slim_dw", (3, 224, 224)),
    "xception": ("legacy_xception", (3, 299, 299)),
    "xception_aligned": ("xception41p", (3, 299, 299)),
    "xcit": ("xcit_nano_12_p8_224", (3, 224, 224)),
}

#: Smaller pictures for models that take any size
SMALLER = {"deepseek_vit": (3, 210, 210), "gemma4_vit": (3, 192, 192), "qwen3_vit": (3, 256, 256), "naflexvit": (3, 192, 192)}

#: Still smaller pictures, for emulated AMD GPUs
SMALLEST = SMALLER | {"deepseek_vit": (3, 70, 70), "gemma4_vit": (3, 96, 96)}

#: Small sizes by the names that configurations use; each configuration takes the ones that it has.
SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "embed_dim": 64, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2,
    "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4,
    "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "intermediate_size": 128,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "ffn_dim": 128, "d_ff": 128, "d_kv": 16, "hidden_dim": 128, "dff": 128,
    "vocab_size": 199, "max_position_embeddings": 128, "n_positions": 128, "max_source_positions": 64, "max_target_positions": 64,
    "image_size": 32, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "num_mel_bins": 16, "num_local_experts": 4, "num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "num_experts_per_tok": 2, "embedding_size": 64, "word_embed_proj_dim": 64, "ffn_config": None, "conv_dim": (32, 32, 32),
    "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    "state_size": 8, "time_step_rank": 4, "window_size": 4,
}

PORTS = {
    "input_ids": ("bt", lambda b, t: torch.randint(5, 190, (b, t))),
    # Models that unroll a loop over the tokens accept one length only.
    "nine_ids": ("b", lambda b, _: torch.randint(5, 190, (b, 9))),
    "decoder_input_ids": ("bt", lambda b, t: torch.randint(5, 190, (b, t))),
    "pixel_values": ("b", lambda b, _: torch.randn(b, 3, 32, 32)),
    "pictures": ("b", lambda b, _: torch.randn(b, 3, 64, 64)),
    "input_features": ("b", lambda b, _: torch.randn(b, 16, 128)),
    "spectrum": ("b", lambda b, _: torch.randn(b, 64, 16)),
    "input_values": ("b", lambda b, _: torch.randn(b, 1600)),
}

#: ports whose argument has another name
NAMES = {"nine_ids": "input_ids", "pictures": "pixel_values", "spectrum": "input_features"}


def configured(name, config):
    """Returns the configuration with few and small layers, changed according to `config`."""
    made = transformers.AutoConfig.for_model(name)
    known = made.to_dict()
    over = {key: value for key, value in SMALL.items() if key in known and not isinstance(known[key], dict) and value is not None}
    if over.get("num_key_value_heads", known.get("num_key_value_heads")) is not None:
        over["num_key_value_heads"] = 2
    if known.get("head_dim") is not None:
        over["head_dim"] = 16
    return transformers.AutoConfig.for_model(name, **{**over, **config})


BASE, CAUSAL = transformers.AutoModel.from_config, transformers.AutoModelForCausalLM.from_config
IDS, BOTH, PIXELS = ("input_ids",), ("input_ids", "decoder_input_ids"), ("pixel_values",)
ENCODER, DECODER = (BASE, IDS, {}), (CAUSAL, IDS, {"use_cache": False})
TWO = (BASE, BOTH, {"use_cache": False})
PICTURE = (BASE, PIXELS, {})

#: name -> (changes to its configuration, constructor, inputs, options of the call)
TEXTS = {
    **{name: ({}, *ENCODER) for name in (
        "bert", "roberta", "distilbert", "electra", "albert", "mpnet", "xlm-roberta", "modernbert", "fnet", "roformer", "convbert",
        "megatron-bert", "ernie", "data2vec-text", "deberta-v2")},
    **{name: ({}, *DECODER) for name in (
        "llama", "gpt2", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "gpt_neox", "falcon", "opt",
        "bloom", "stablelm", "starcoder2", "olmo2", "cohere", "granite", "glm", "smollm3", "mixtral", "qwen2_moe", "qwen3_moe",
        "olmoe", "gpt_oss")},
    "rwkv": ({}, CAUSAL, ("nine_ids",), {"use_cache": False}),
    "gptj": ({"rotary_dim": 16}, *DECODER),
    "mamba": ({"conv_kernel": 4}, CAUSAL, ("nine_ids",), {"use_cache": False}),
    "mamba2": ({"conv_kernel": 4, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8}, CAUSAL, ("nine_ids",),
               {"use_cache": False}),
    **{name: ({}, *TWO) for name in ("t5", "bart", "pegasus", "marian", "m2m_100")},
    **{name: ({}, *PICTURE) for name in ("vit", "deit", "beit", "dinov2")},
    "swin": ({"embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "patch_size": 4}, *PICTURE),
    "convnext": ({"hidden_sizes": [16, 32], "depths": [1, 1], "patch_size": 4, "num_stages": 2}, *PICTURE),
    "resnet": ({"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}, *PICTURE),
    "whisper": ({}, BASE, ("input_features", "decoder_input_ids"), {"use_cache": False}),
    "wav2vec2": ({}, BASE, ("input_values",), {}),
    "hubert": ({}, BASE, ("input_values",), {}),
}
