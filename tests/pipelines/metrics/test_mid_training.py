"""Training of a projector against a plain loop over single images, on tiny random language models."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything imports huggingface_hub: no test reaches for a network

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import torch
import transformers
from labelled_inputs import make_inputs, run

from optotype.pipelines.encode import projector_training
from optotype.pipelines.encode.causal import CausalModel, load_causal_model
from optotype.pipelines.encode.loading import locate
from optotype.pipelines.encode.projector_training import Recipe, projector_flops, train_projector
from optotype.pipelines.metrics.conformance import conformance_problems
from optotype.pipelines.metrics.mid_training_loss import MidTrainingLoss
from optotype.schemas.errors import InvalidDataError, ModelError, NotFoundError, UsageError
from optotype.schemas.sources import parse_source

METRIC = MidTrainingLoss()
WORDS = ["red", "blue", "green", "dog", "cat", "tree", "runs", "sees"]
SPECIAL = ["[CLS]", "[PAD]", "[END]", "[UNK]"]
SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
COMMON = {"vocab_size": 12, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}


def save(folder: Path, model: Any, template: str) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*SPECIAL, *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    used = [(token, place) for place, token in enumerate(SPECIAL) if token in template]
    words.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", bos_token="[CLS]", eos_token="[END]", pad_token="[PAD]"
    ).save_pretrained(folder)
    with torch.no_grad():
        for parameter in model.parameters():  # random ones start too small to tell words apart
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


def config(kind: str, **more: Any) -> Any:
    if kind == "gpt2":
        return transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=20, **COMMON, **more)
    if kind == "bert":
        return transformers.BertConfig(**SHAPE, vocab_size=12, max_position_embeddings=20, **more)
    return transformers.LlamaConfig(**SHAPE, num_key_value_heads=1, max_position_embeddings=20, **COMMON, **more)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny language models by name."""
    root = tmp_path_factory.mktemp("language")
    torch.manual_seed(0)
    made = {
        "llama": (transformers.LlamaForCausalLM(config("llama")), "$A"),
        "tied": (transformers.LlamaForCausalLM(config("llama", tie_word_embeddings=True)), "[CLS] $A [END]"),
        "gpt2": (transformers.GPT2LMHeadModel(config("gpt2")), "[CLS] $A"),
        "headless": (transformers.LlamaModel(config("llama")), "$A"),
        "bert": (transformers.BertModel(config("bert")), "[CLS] $A [END]"),
        "bert-masked": (transformers.BertForMaskedLM(config("bert")), "[CLS] $A [END]"),
    }
    found = {name: save(root / name, model, template) for name, (model, template) in made.items()}
    with_head = transformers.BertLMHeadModel(config("bert", is_decoder=True))
    found["bert-ahead"] = save(root / "bert-ahead", with_head, "[CLS] $A")
    stated = (found["bert-ahead"] / "config.json").read_text()
    (found["bert-ahead"] / "config.json").write_text(stated.replace('"is_decoder": true', '"is_decoder": false'))
    return found


def load(folders: dict[str, Path], name: str) -> CausalModel:
    return load_causal_model(locate(parse_source(str(folders[name]))))


def data(seed: int, n: int, channels: int = 5, most: int = 4) -> tuple[list[np.ndarray], list[str], list[str]]:
    rng = np.random.default_rng(seed)
    patches = [rng.standard_normal((size, channels)).astype(np.float32) for size in rng.integers(1, most + 1, n)]
    captions = [" ".join(rng.choice(WORDS, rng.integers(1, 5))) for _ in range(n)]
    return patches, captions, [f"i{number:03}" for number in range(n)]


def train(causal: CausalModel, given: Any, recipe: Recipe, *, seed: int = 0, held: Sequence[int] = ()) -> Any:
    patches, captions, items = given
    others = [place for place in range(len(items)) if place not in held]
    counts = [len(each) for each in patches]

    def read(positions: Sequence[int]) -> list[np.ndarray]:
        return [patches[p] for p in positions]

    rng = np.random.default_rng(seed)
    return train_projector(causal, read, counts, captions, items, others, list(held), recipe, rng)


def slow_training(folder: Path, template: str, given: Any, recipe: Recipe, steps: int, held: Sequence[int]) -> Any:
    """One image at a time, without padding; the projector as torch's own layers, first weights drawn alike."""
    patches, captions, items = given
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    vocabulary = {word: place for place, word in enumerate([*SPECIAL, *WORDS])}
    table = model.get_input_embeddings().weight.detach()
    others = [place for place in range(len(items)) if place not in held]
    unit = float(np.sqrt(np.mean([np.mean(patches[p].astype(float) ** 2) for p in others])))
    spread = float(table.double().square().mean().sqrt())
    rng = np.random.default_rng(0)

    def layer(rows: int, gain: float) -> torch.nn.Linear:
        made = torch.nn.Linear(rows, 16)
        with torch.no_grad():
            made.weight.copy_(torch.tensor((rng.standard_normal((rows, 16)) * gain / np.sqrt(rows)).T))
            made.bias.zero_()
        return made

    if recipe.projector == "linear":
        projector: Any = layer(5, spread)
    else:
        first = layer(5, 1.0)
        projector = torch.nn.Sequential(first, torch.nn.GELU(), layer(16, spread / 0.65))
    order: list[int] = []
    batches = []
    while len(batches) < steps:
        order = [others[place] for place in rng.permutation(len(others))]
        batches += [order[start : start + recipe.batch] for start in range(0, len(order), recipe.batch)]

    def loss_of(place: int) -> list[torch.Tensor]:
        ids = [vocabulary[word] for word in captions[place].split()][: recipe.caption_tokens]
        before = [0] if template.startswith("[CLS]") else []
        visual = projector(torch.tensor(patches[place] / np.float32(unit)))
        sequence = torch.cat([table[before], visual, table[ids]])[None]
        logits = torch.log_softmax(model(inputs_embeds=sequence).logits[0], dim=-1)
        return [-logits[len(before) + len(visual) - 1 + n, token] for n, token in enumerate(ids)]

    optimiser = torch.optim.Adam(projector.parameters(), lr=recipe.rate)
    losses = []
    for number, batch in enumerate(batches[:steps]):
        optimiser.param_groups[0]["lr"] = recipe.rate * 0.5 * (1 + np.cos(np.pi * number / steps))
        loss = torch.stack([each for place in batch for each in loss_of(place)]).mean()
        losses.append(float(loss.detach()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return losses, [float(torch.stack(loss_of(place)).mean().detach()) for place in held]


@pytest.mark.parametrize(
    ("name", "template", "projector"),
    [("llama", "$A", "linear"), ("tied", "[CLS] $A", "mlp2"), ("gpt2", "[CLS] $A", "linear")],
)
def test_training_is_that_of_a_loop_over_single_images(
    folders: dict[str, Path], name: str, template: str, projector: Any
) -> None:
    given = data(0, 11)
    recipe = Recipe(projector=projector, flops=4e6, batch=3, rate=0.01, caption_tokens=3)
    found = train(load(folders, name), given, recipe, held=[1, 4, 7])
    assert len(found.losses) > 5
    losses, held = slow_training(folders[name], template, given, recipe, len(found.losses), [1, 4, 7])
    np.testing.assert_allclose(found.losses, losses, rtol=2e-4)
    np.testing.assert_allclose(found.held_out, held, rtol=2e-4)
    assert found.final == pytest.approx(np.mean(found.losses[-max(1, round(0.1 * len(losses))) :]))
    assert found.cut == sum(len(caption.split()) > 3 for caption in given[1])


def test_a_model_without_a_choice_of_logits_gives_the_same(folders: dict[str, Path]) -> None:
    causal = load(folders, "llama")
    assert causal.picks_logits
    recipe = Recipe(flops=1e6, batch=3)
    first = train(causal, data(1, 9), recipe, held=[0, 5])
    second = train(replace(causal, picks_logits=False), data(1, 9), recipe, held=[0, 5])
    np.testing.assert_allclose(first.held_out, second.held_out, rtol=1e-5)
    np.testing.assert_allclose(first.losses, second.losses, rtol=1e-5)


def test_the_language_model_stays_as_it_is_and_nothing_global_matters(folders: dict[str, Path]) -> None:
    causal = load(folders, "llama")
    before = [parameter.clone() for parameter in causal.model.parameters()]
    recipe = Recipe(flops=1e6, rate=0.1)
    first = train(causal, data(2, 10), recipe, held=[0])
    torch.manual_seed(77)
    np.random.seed(77)  # noqa: NPY002 - the global state must not matter
    second = train(causal, data(2, 10), recipe, held=[0])
    assert first.losses.tolist() == second.losses.tolist()
    assert first.held_out.tolist() == second.held_out.tolist()
    assert train(causal, data(2, 10), recipe, seed=1).losses.tolist() != first.losses.tolist()
    assert all(torch.equal(a, b) for a, b in zip(before, causal.model.parameters(), strict=True))
    assert not torch.is_inference_mode_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_unit_of_the_features_does_not_matter(folders: dict[str, Path]) -> None:
    patches, captions, items = data(3, 9)
    causal = load(folders, "llama")
    first = train(causal, (patches, captions, items), Recipe(flops=1e6), held=[2])
    scaled = train(
        causal, ([each * np.float32(1024) for each in patches], captions, items), Recipe(flops=1e6), held=[2]
    )
    assert scaled.losses.tolist() == first.losses.tolist()


def test_a_line_end_follows_each_caption(folders: dict[str, Path]) -> None:
    causal, seen = load(folders, "tied"), []

    class Recorder:
        bos_token_id = eos_token_id = 2

        def __call__(self, texts: list[str], **options: Any) -> Any:
            seen.extend(texts)
            return causal.tokenizer(texts, **options)

    patches, captions, items = data(9, 6)
    train(
        replace(causal, tokenizer=Recorder()), (patches, [f" {text}  " for text in captions], items), Recipe(flops=1e6)
    )
    assert seen == [f"{text}\n" for text in captions]


class TestBudget:
    def test_parameters_are_counted_once(self, folders: dict[str, Path]) -> None:
        plain, tied = load(folders, "llama"), load(folders, "tied")
        assert (plain.head, tied.head, plain.width) == (12 * 16, 12 * 16, 16)
        assert plain.blocks == tied.blocks
        model = transformers.LlamaForCausalLM(config("llama"))
        layers = sum(p.numel() for name, p in model.named_parameters() if "layers" in name or "norm" in name)
        assert plain.blocks == layers
        assert plain.positions == 20

    def test_flops_by_hand(self) -> None:
        causal = CausalModel("m", 10, 100, 70, None, None, None, None, True)
        linear = projector_flops(Recipe(), causal, channels=6, patches=5, before=1, caption=3)
        assert linear == 4 * (100 * (1 + 5 + 3) + 70 * 3) + 4 * 6 * 10 * 5
        two = projector_flops(Recipe(projector="mlp2"), causal, channels=6, patches=5, before=1, caption=3)
        assert two == linear + 6 * 10 * 10 * 5

    def test_it_is_never_exceeded_and_used_up_to_a_step(self, folders: dict[str, Path]) -> None:
        causal, given = load(folders, "llama"), data(4, 10)
        dearest = 4 * projector_flops(Recipe(), causal, channels=5, patches=4, before=0, caption=4)
        spent = []
        for flops in (1e6, 2e6, 4e6):
            found = train(causal, given, Recipe(flops=flops))
            assert flops - dearest < found.flops <= flops
            spent.append(found.images)
        assert spent == sorted(set(spent))

    def test_more_tokens_an_image_mean_fewer_images(self, folders: dict[str, Path]) -> None:
        causal = load(folders, "llama")
        _, captions, items = data(5, 10)
        few = train(causal, ([np.ones((1, 5), np.float32)] * 10, captions, items), Recipe(flops=2e6))
        many = train(causal, ([np.ones((9, 5), np.float32)] * 10, captions, items), Recipe(flops=2e6))
        assert many.images < few.images

    def test_one_step_must_be_paid_for(self, folders: dict[str, Path]) -> None:
        with pytest.raises(UsageError, match="one step of 4 images takes"):
            train(load(folders, "llama"), data(6, 8), Recipe(flops=10.0))


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("bert", "is a BertModel"),
            ("bert-masked", "is a BertForMaskedLM"),
            ("headless", "is a LlamaModel"),
            ("bert-ahead", "looks ahead"),
        ],
    )
    def test_only_causal_models_with_their_heads(self, folders: dict[str, Path], name: str, words: str) -> None:
        with pytest.raises(ModelError, match=words):
            load(folders, name)

    def test_a_head_without_weights(self, folders: dict[str, Path], tmp_path: Path) -> None:
        import shutil

        folder = tmp_path / "model"
        shutil.copytree(folders["headless"], folder)
        stated = (folder / "config.json").read_text()
        (folder / "config.json").write_text(stated.replace('"LlamaModel"', '"LlamaForCausalLM"'))
        with pytest.raises(ModelError, match=r"random numbers: lm_head\.weight"):
            load_causal_model(locate(parse_source(str(folder))))

    def test_blank_captions_long_texts_and_bad_patches_are_named(self, folders: dict[str, Path]) -> None:
        causal = load(folders, "llama")
        patches, captions, items = data(7, 8)
        with pytest.raises(InvalidDataError) as caught:
            train(causal, (patches, [*captions[:6], " ", ""], items), Recipe())
        assert [problem.where for problem in caught.value.problems] == ["i006", "i007"]
        long = [np.ones((18, 5), np.float32), *patches[1:]]
        with pytest.raises(UsageError, match="reads 20 tokens; i000 has 18 patches"):
            train(causal, (long, ["red dog sees"] * 8, items), Recipe())
        patches[3][0, 0] = np.inf
        with pytest.raises(InvalidDataError, match="i003"):
            train(causal, (patches, captions, items), Recipe(flops=1e6))
        zeros = [np.zeros((2, 5), np.float32)] * 8
        with pytest.raises(InvalidDataError, match="all zero"):
            train(causal, (zeros, captions, items), Recipe())


def planted(n: int, *, noise: float) -> tuple[list[np.ndarray], list[str]]:
    """One of two colours, written in the patches and in the caption."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, n)
    patches = [np.eye(4)[[code, code]] + noise * rng.standard_normal((2, 4)) for code in codes]
    return patches, [WORDS[code] for code in codes]


class TestMetric:
    def inputs(self, folders: dict[str, Path], *, noise: float = 0.1, n: int = 40, **more: Any) -> Any:
        patches, captions = planted(n, noise=noise)
        pooled = np.array([each.mean(axis=0) for each in patches])
        given = {"captions": captions, "language_model": str(folders["llama"]), "model": "llama", **more}
        return make_inputs(pooled, patches=patches, **given)

    def test_what_the_patches_say_is_learnt(self, folders: dict[str, Path]) -> None:
        clear = run(METRIC, self.inputs(folders), flops=1e7, rate=0.05)
        noise = run(METRIC, self.inputs(folders, noise=100.0), flops=1e7, rate=0.05)
        assert clear.value > noise.value + 0.5
        assert -clear.value < 0.55  # two colours alike often: log 2 = 0.69 without the image
        assert clear.value == pytest.approx(clear.per_item.mean())
        assert len(clear.per_item) == clear.details["held_out"] == 8
        assert clear.details["held_out_loss"] == -clear.value < clear.details["text_only_loss"]
        assert clear.details["flops"] <= clear.details["budget"] == 1e7
        assert not clear.warnings

    def test_the_training_loss_on_request(self, folders: dict[str, Path]) -> None:
        found = run(METRIC, self.inputs(folders), flops=1e6, on="train")
        assert (found.value, found.per_item) == (-found.details["train_loss"], None)
        assert (found.details["held_out"], found.details["text_only_loss"]) == (0, None)
        again = run(METRIC, self.inputs(folders), flops=1e6, on="train")
        assert (again.value, again.details) == (found.value, found.details)
        assert run(METRIC, self.inputs(folders), flops=1e6, on="train", seed=3).value != found.value
        assert "of 32 images" in found.warnings[0]

    def test_patches_are_averaged_where_they_are_too_many(self, folders: dict[str, Path]) -> None:
        patches = [np.arange(10.0).reshape(5, 2) + n for n in range(6)]
        doubled = [np.array([rows[:3].mean(axis=0), rows[3:].mean(axis=0)]) for rows in patches]
        more = {"captions": ["red dog"] * 6, "language_model": str(folders["llama"]), "model": "llama"}
        first = run(METRIC, make_inputs(np.ones((6, 2)), patches=patches, **more), tokens=2, flops=1e6)
        second = run(METRIC, make_inputs(np.ones((6, 2)), patches=doubled, **more), flops=1e6)
        assert (first.value, first.details) == (second.value, second.details)

    def test_chunks_of_the_store_do_not_matter(self, folders: dict[str, Path]) -> None:
        inputs = self.inputs(folders)
        chunked = da.from_array(inputs.features["patches"].values, chunks=(7, 4))
        lazy = replace(inputs, features=inputs.features.assign(patches=(("token", "channel"), chunked)))
        assert run(METRIC, lazy, flops=1e6).per_item.tolist() == run(METRIC, inputs, flops=1e6).per_item.tolist()

    def test_it_says_what_it_lacks(self, folders: dict[str, Path], tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="--captions"):
            run(METRIC, self.inputs(folders, captions=None))
        with pytest.raises(UsageError, match="--language-model llama=SOURCE"):
            run(METRIC, self.inputs(folders, language_model=None))
        with pytest.raises(UsageError, match=r"--set mid-training-loss\.flops"):
            run(METRIC, self.inputs(folders), flops=1.0)
        with pytest.raises(ModelError, match="BertModel"):
            run(METRIC, self.inputs(folders, language_model=str(folders["bert"])))
        with pytest.raises(NotFoundError):
            run(METRIC, self.inputs(folders, language_model=str(tmp_path / "nothing")))
        with pytest.raises(UsageError, match="not a plug-in"):
            run(METRIC, self.inputs(folders, language_model="python:labelled_inputs:run"))


def test_it_conforms(folders: dict[str, Path]) -> None:
    options = {"flops": 1.5e8, "batch": 8, "rate": 0.02}
    assert conformance_problems(METRIC, options=options, language_model=str(folders["llama"])) == []


def test_a_loss_that_leaves_the_numbers_is_an_error(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector_training._Network, "losses", lambda *_: (torch.tensor([np.nan]), torch.tensor([1.0])))
    with pytest.raises(ModelError, match="step 1"):
        train(load(folders, "llama"), data(8, 8), Recipe(flops=1e6))
