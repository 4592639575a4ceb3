"""`gotpl.pythonic.compression` of the static program, which has neither bzip2 nor xz.

gotpl imports these functions always, and offers them to templates only where it is asked to, which
nodemanager does not.
"""


def _absent(_: object) -> bytes:
    raise NotImplementedError(
        "cannot compress or decompress: the static program has no such functions for templates"
    )


gzip_compress = gzip_decompress = zlib_compress = zlib_decompress = _absent
bz2_compress = bz2_decompress = lzma_compress = lzma_decompress = _absent
