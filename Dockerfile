# One image for both programs of the cluster: `operator`, which needs no rights on its node, and `agent`, which a
# DaemonSet runs as root. Nothing here names a package index: give yours as a secret, if you need one:
#   docker build --secret id=pip,src=/etc/pip.conf --tag nodemanager .
# There is no shell in any step, and no init: the operator starts no processes, the agent waits for its own.
# A tag, so that a build at home gets what was mended meanwhile; `make release-image` insists on a digest.
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
RUN ["python3", "-m", "venv", "--without-pip", "/opt/nodemanager"]
# signing.txt: the operator signs its audit log. s3.txt: it may copy it to object storage.
COPY requirements/runtime.txt ./
COPY requirements/signing.txt ./
COPY requirements/s3.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf ["python3", "-m", "pip", "--python", "/opt/nodemanager/bin/python", "install", "--disable-pip-version-check", "--no-cache-dir", "--no-compile", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", "runtime.txt", "--requirement", "signing.txt", "--requirement", "s3.txt"]
COPY src/nodemanager /opt/nodemanager/lib/python3.11/site-packages/nodemanager
# Compiled now, since nobody can write there later; by content, so that building twice gives the same files.
RUN ["/opt/nodemanager/bin/python", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/opt/nodemanager/lib"]

FROM ${BASE}
LABEL org.opencontainers.image.title="nodemanager" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/nodemanager /opt/nodemanager
USER 65532:65532
# -I: nothing of the environment or of the working directory is imported.
ENTRYPOINT ["/opt/nodemanager/bin/python", "-I", "-m", "nodemanager"]
CMD ["--help"]
