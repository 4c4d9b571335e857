"""The programs of apart_program.py that train on images: latents, photographs, scans."""


def diffusion(o):
    """diffusers: a latent diffusion model like Stable Diffusion 1.5, aspect buckets, an average."""
    import torch
    from diffusers import DDPMScheduler, UNet2DConditionModel
    from diffusers.training_utils import EMAModel

    widths = (32, 64) if o.tiny else (320, 640, 1280, 1280)
    down = ["CrossAttnDownBlock2D"] * (len(widths) - 1) + ["DownBlock2D"]
    up = ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * (len(widths) - 1)
    model = UNet2DConditionModel(
        block_out_channels=widths, down_block_types=down, up_block_types=up,
        cross_attention_dim=64 if o.tiny else 768, attention_head_dim=8,
    ).to(o.device)  # fmt: skip
    average = EMAModel(model.parameters(), decay=0.999)
    average.to(o.device)
    noise = DDPMScheduler()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **o.fused)
    buckets = [(64, 64), (56, 72), (72, 56), (48, 80), (80, 48), (88, 40)]
    for _ in range(o.steps):
        height, width = (8, 8) if o.tiny else o.draw.choice(buckets)
        latents = torch.randn(2 if o.tiny else 8, 4, height, width, device=o.device)
        text = torch.randn(len(latents), 77, 64 if o.tiny else 768, device=o.device)
        when = torch.randint(1000, (len(latents),), device=o.device)
        target = torch.randn_like(latents)
        with torch.autocast(o.kind, torch.bfloat16):
            guess = model(noise.add_noise(latents, target, when), when, text).sample
            loss = torch.nn.functional.mse_loss(guess.float(), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.step(model.parameters())
        optimizer.zero_grad()
    return model


def detection(o):
    """torchvision: Faster R-CNN, images of all sizes with any number of boxes."""
    import torch
    from torchvision.models.detection import fasterrcnn_resnet50_fpn_v2

    small = {"min_size": 64, "max_size": 96} if o.tiny else {}
    model = fasterrcnn_resnet50_fpn_v2(weights=None, weights_backbone=None, **small).to(o.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(o.steps):
        images, targets = [], []
        for _ in range(2 if o.tiny else 8):
            height, width = o.draw.randint(320, 800), o.draw.randint(320, 1200)
            if o.tiny:
                height, width = height // 8, width // 8
            images.append(torch.rand(3, height, width, device=o.device))
            corner = torch.rand(o.draw.randint(1, 30), 2) * torch.tensor([width, height]) / 2
            size = torch.rand(len(corner), 2) * torch.tensor([width, height]) / 2 + 1
            boxes = torch.cat((corner, corner + size), 1).to(o.device)
            labels = torch.randint(1, 91, (len(boxes),), device=o.device)
            targets.append({"boxes": boxes, "labels": labels})
        losses = model(images, targets)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def unet3d(o):
    """MONAI: a 3-D U-Net on crops of several sizes, half precision, validation by windows."""
    import torch
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    widths = (4, 8, 16) if o.tiny else (32, 64, 128, 256, 512)
    model = UNet(3, 1, 4, widths, (2,) * (len(widths) - 1), num_res_units=2).to(o.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of, scaler = DiceCELoss(to_onehot_y=True, softmax=True), torch.amp.GradScaler(o.kind)
    steps = o.steps
    for step in range(steps):
        side = 16 if o.tiny else o.draw.choice((96, 112, 128, 144))
        scan = torch.randn(2, 1, side, side, side, device=o.device)
        labels = torch.randint(4, scan.shape, device=o.device)
        with torch.autocast(o.kind, torch.float16 if o.kind == "cuda" else torch.bfloat16):
            loss = loss_of(model(scan).float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 4 == 3:
            model.eval()
            with torch.no_grad():
                whole = torch.randn(1, 1, *((24,) * 3 if o.tiny else (224, 208, 160)))
                sliding_window_inference(whole.to(o.device), (side,) * 3, 4, model, 0.25)
            model.train()
    return model


def images(o):
    """timm: ConvNeXt, images that grow while it trains, mixed, with an average of the weights."""
    import timm
    import torch
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3

    name, count = ("convnext_atto", 4) if o.tiny else ("convnext_small", 64)
    model = timm.create_model(name, pretrained=False, drop_path_rate=0.1, num_classes=1000)
    model = model.to(o.device)
    average, loss_of = ModelEmaV3(model), SoftTargetCrossEntropy()
    optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3)
    mix = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=1000)
    steps = o.steps
    for step in range(steps):
        side = 32 if o.tiny else (160, 224, 288)[3 * step // steps]
        pictures = torch.randn(count, 3, side, side, device=o.device)
        labels = torch.randint(1000, (count,), device=o.device)
        pictures, labels = mix(pictures, labels)
        with torch.autocast(o.kind, torch.bfloat16):
            loss = loss_of(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model, step=step)
    return model
