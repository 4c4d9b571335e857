"""The programs of apart_program.py that train on text and audio."""

import tempfile


def speech(o):
    """transformers: Wav2Vec2 with CTC on sounds of 2 to 20 seconds, masked."""
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    small = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64,
             "num_attention_heads": 2} if o.tiny else {}  # fmt: skip
    config = Wav2Vec2Config(
        feat_extract_norm="layer", do_stable_layer_norm=True, ctc_zero_infinity=True,
        ctc_loss_reduction="mean", **small,
    )  # fmt: skip
    model = Wav2Vec2ForCTC(config).to(o.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **o.fused)
    for _ in range(o.steps):
        seconds = [o.draw.uniform(2, 20) / (8 if o.tiny else 1) for _ in range(2 if o.tiny else 12)]
        lengths = [int(16000 * s) for s in seconds]
        sounds = torch.randn(len(lengths), max(lengths), device=o.device)
        mask = torch.tensor([[i < n for i in range(max(lengths))] for n in lengths])
        labels = torch.randint(1, 32, (len(lengths), 4 * int(min(seconds)) + 2), device=o.device)
        with torch.autocast(o.kind, torch.bfloat16):
            loss = model(sounds, mask.long().to(o.device), labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def t5(o):
    """transformers' Seq2SeqTrainer: T5 1.1, Adafactor, two microbatches a step, an evaluation."""
    import torch
    from transformers import (
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        T5Config,
        T5ForConditionalGeneration,
    )

    config = T5Config(
        d_model=64 if o.tiny else 1024, d_ff=128 if o.tiny else 2816,
        num_layers=2 if o.tiny else 16, num_heads=2 if o.tiny else 16,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0,
    )  # fmt: skip
    most = 24 if o.tiny else 900
    steps, batch = o.steps, 2 if o.tiny else 16

    def text(longest):
        return [o.draw.randrange(2, 32000) for _ in range(o.draw.randint(longest // 8, longest))]

    class Pad(DataCollatorForSeq2Seq):
        """Without a tokenizer: all that is left to do is to pad."""

        def __call__(self, rows, return_tensors=None):
            pad = torch.nn.utils.rnn.pad_sequence
            texts = [torch.tensor(row["input_ids"]) for row in rows]
            labels = [torch.tensor(row["labels"]) for row in rows]
            tokens = pad(texts, batch_first=True)
            mask = (tokens > 0).long()
            return {"input_ids": tokens, "attention_mask": mask,
                    "labels": pad(labels, batch_first=True, padding_value=-100)}  # fmt: skip

    data = [{"input_ids": text(most), "labels": text(most // 4)} for _ in range(2 * steps * batch)]
    with tempfile.TemporaryDirectory() as folder:
        settings = Seq2SeqTrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch,
            gradient_accumulation_steps=2, optim="adafactor", bf16=not o.tiny,
            eval_strategy="steps", eval_steps=max(1, steps // 2),
            save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=o.tiny,
        )  # fmt: skip
        trainer = Seq2SeqTrainer(
            model=T5ForConditionalGeneration(config), args=settings, train_dataset=data,
            eval_dataset=data[:batch], data_collator=Pad(None),
        )  # fmt: skip
        trainer.train()
    return trainer.model


def grpo(o):
    """transformers: GRPO; groups are generated, scored, and learned from in two epochs."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    width = 64 if o.tiny else 1536
    config = Qwen2Config(
        vocab_size=256 if o.tiny else 50000, hidden_size=width, intermediate_size=4 * width,
        num_hidden_layers=2 if o.tiny else 8, num_attention_heads=2 if o.tiny else 12,
        num_key_value_heads=2, eos_token_id=1, pad_token_id=0, bos_token_id=2,
    )  # fmt: skip
    policy, reference = (Qwen2ForCausalLM(config).to(o.device) for _ in range(2))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6, **o.fused)

    def logs(model, tokens, prompt):
        logits = model(tokens).logits[:, prompt - 1 : -1].float()
        return torch.log_softmax(logits, -1).gather(-1, tokens[:, prompt:, None]).squeeze(-1)

    for _ in range(o.steps):
        prompt = o.draw.randint(4, 8) if o.tiny else o.draw.randint(64, 512)
        asked = torch.randint(3, config.vocab_size, (2 if o.tiny else 8, prompt), device=o.device)
        asked = asked.repeat_interleave(4, 0)
        with torch.no_grad(), torch.autocast(o.kind, torch.bfloat16):
            policy.eval()
            tokens = policy.generate(
                asked, attention_mask=torch.ones_like(asked), do_sample=True,
                max_new_tokens=4 if o.tiny else o.draw.randint(24, 48),
            )  # fmt: skip
            policy.train()
            kept, old = (logs(model, tokens, prompt) for model in (reference, policy))
        score = torch.rand(len(tokens) // 4, 4, device=o.device)
        worth = ((score - score.mean(1, True)) / (score.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        for _ in range(2):
            with torch.autocast(o.kind, torch.bfloat16):
                new = logs(policy, tokens, prompt)
            ratio = (new - old).exp()
            gain = torch.minimum(ratio * worth, ratio.clamp(0.8, 1.2) * worth)
            apart = (kept - new).exp() - (kept - new) - 1
            (0.04 * apart - gain).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return policy


def embeddings(o):
    """sentence-transformers: in-batch negatives with cached gradients over small batches."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import CachedMultipleNegativesRankingLoss
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    width, words = 64 if o.tiny else 768, 1000
    with tempfile.TemporaryDirectory() as folder:
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(words))]
        with open(f"{folder}/vocab.txt", "w") as file:
            file.write("\n".join(names))
        BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
        config = BertConfig(
            vocab_size=len(names), hidden_size=width, intermediate_size=4 * width,
            num_hidden_layers=2 if o.tiny else 12, num_attention_heads=width // 64,
        )  # fmt: skip
        BertModel(config).save_pretrained(folder)
        inner = Transformer(folder, max_seq_length=256)
        model = SentenceTransformer(modules=[inner, Pooling(width)], device=str(o.device))
    loss_of = CachedMultipleNegativesRankingLoss(model, mini_batch_size=4 if o.tiny else 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, **o.fused)

    def text(longest):
        return " ".join(f"w{o.draw.randrange(words)}" for _ in range(o.draw.randint(4, longest)))

    for _ in range(o.steps):
        sides = []
        for longest in (24, 240):
            texts = [text(longest) for _ in range(8 if o.tiny else 384)]
            rows = model.tokenize(texts)
            sides.append({key: value.to(o.device) for key, value in rows.items()
                          if isinstance(value, torch.Tensor)})  # fmt: skip
        with torch.autocast(o.kind, torch.bfloat16):
            loss = loss_of(sides, torch.arange(len(texts), device=o.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def packing(o):
    """transformers' Trainer: documents packed to long sequences, layers recomputed."""
    from transformers import (
        DataCollatorWithFlattening,
        LlamaConfig,
        LlamaForCausalLM,
        Trainer,
        TrainingArguments,
    )

    width = 64 if o.tiny else 1536
    config = LlamaConfig(
        vocab_size=256 if o.tiny else 32000, hidden_size=width, intermediate_size=11 * width // 4,
        num_hidden_layers=2 if o.tiny else 12, num_attention_heads=max(1, width // 128),
        max_position_embeddings=1 << 16, use_cache=False,
    )  # fmt: skip
    longest, batch, steps = (16, 2, o.steps) if o.tiny else (4000, 8, o.steps)
    data = [
        {
            "input_ids": [
                o.draw.randrange(config.vocab_size) for _ in range(o.draw.randint(4, longest))
            ]
        }
        for _ in range(steps * batch)
    ]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, bf16=not o.tiny,
            gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False},
            save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=o.tiny,
        )  # fmt: skip
        trainer = Trainer(
            model=LlamaForCausalLM(config), args=settings, train_dataset=data,
            data_collator=DataCollatorWithFlattening(),
        )  # fmt: skip
        trainer.train()
    return trainer.model
