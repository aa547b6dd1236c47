"""Running models: images to patch features, captions to text states.

`encode_images` and `encode_texts` are the two verbs; `VisionEncoder` is what a plug-in has to be. torch and
transformers are imported when one of them is called, not with this package.
"""

from optotype.pipelines.encode.image_features import encode_images
from optotype.pipelines.encode.protocol import VisionEncoder, encoder_problems
from optotype.pipelines.encode.runs import EncodedArray
from optotype.pipelines.encode.text_states import encode_texts

__all__ = ["EncodedArray", "VisionEncoder", "encode_images", "encode_texts", "encoder_problems"]
