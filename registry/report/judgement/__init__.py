"""The page of a judgement: metrics beside each other, their ablation, sensitivity, pools and costs."""
