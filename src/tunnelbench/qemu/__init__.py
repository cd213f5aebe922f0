"""Virtual routers: builds images from Debian's packages, emulates boards in QEMU, and limits their CPU share."""
