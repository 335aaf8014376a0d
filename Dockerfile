# sapwood as an image: `docker build -t sapwood:local .`
# The compiler stays in the first stage. The second has a user without rights and writes nothing: run it with --read-only.
FROM python:3.13-slim AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends g++ \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY CMakeLists.txt LICENSE README.md constraints.txt pyproject.toml ./
COPY src src
# The image may run on another machine than this one.
RUN pip wheel --no-cache-dir -Ccmake.define.SAPWOOD_VARIANTS=all -c constraints.txt -w /wheels ".[web]"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sapwood
COPY --from=build /wheels /wheels
# Installing compiles Python to bytecode, so that nothing has to be written later.
RUN pip install --no-cache-dir --no-index --find-links /wheels "sapwood[web]" && rm -rf /wheels
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["sapwood"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
