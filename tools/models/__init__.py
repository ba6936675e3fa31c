"""What the tools of this folder share: number formats, safetensors files, checkpoint folders."""
