# One image for every service:
#   docker build --tag tidegate .
# It runs as any user, also one without a name; its file system may be read-only; it has no compiler.
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
# The last one brings a Java for Spark.
ARG EXTRAS="services,azure,gcs,hdfs,metastore,registry,s3,signatures,otel,embedded"
WORKDIR /source
COPY .ci/constraints.txt .ci/
# the versions that the tests run with
RUN sed -n 's/^\([A-Za-z0-9._-]*==[^ ;]*\).*/\1/p' .ci/constraints.txt | sort -u > /constraints.txt \
    && python3 -m venv /opt/tidegate \
    && /opt/tidegate/bin/pip install --no-cache-dir --constraint /constraints.txt hatchling
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY producers producers
COPY consumers consumers
RUN /opt/tidegate/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel . \
    && python3 -m venv --clear /opt/tidegate \
    && /opt/tidegate/bin/pip install --no-cache-dir \
        --constraint /constraints.txt "$(echo /wheel/*.whl)[$EXTRAS]" \
    && /opt/tidegate/bin/python -m compileall -q -j 0 /opt/tidegate/lib \
    && /opt/tidegate/bin/pip uninstall --yes --quiet pip setuptools

FROM ${PYTHON}
COPY --from=build /opt/tidegate /opt/tidegate
# A volume for tables gets the owner of this directory.
RUN mkdir /lake && chown 10001:10001 /lake
ENV PATH=/opt/tidegate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    LOGNAME=tidegate \
    TIDEGATE_CONFIG=/etc/tidegate/tidegate.toml
USER 10001:10001
WORKDIR /tmp
# where [monitoring] has this port
EXPOSE 9464
ENTRYPOINT ["tidegate"]
CMD ["run"]
