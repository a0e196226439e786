"""A client of a Dask cluster: yours, or that of worker processes started for one call."""

import logging
import pickle
from contextlib import contextmanager

from unpermute.stream import check_count, import_optional

__all__ = ["RETRIES", "connect", "share"]

# How often a block may fail, or take its worker with it, before the run gives up.
RETRIES = 2
_ALLOWED_FAILURES = 10
_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"


@contextmanager
def connect(client, n_workers):
    """Give a client; close afterwards what was opened here."""
    distributed = import_optional("distributed")
    if isinstance(client, distributed.Client):
        if client.asynchronous:
            raise ValueError("client must not be asynchronous: the results are waited for.")
        yield client
    elif isinstance(client, str):
        try:
            connected = distributed.Client(client, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"client={client!r} does not answer: {error}") from error
        with connected:
            yield connected
    elif client is None:
        with (
            _local_cluster(n_workers) as cluster,
            distributed.Client(cluster, set_as_default=False) as connected,
        ):
            yield connected
    else:
        raise TypeError(
            f"client={client!r} must be a dask.distributed.Client, the address of a scheduler, or"
            " None."
        )


def _local_cluster(n_workers):
    if n_workers is not None:
        check_count("n_workers", n_workers)
    config, distributed = import_optional("dask").config, import_optional("distributed")
    environment = dict(config.get(_ENVIRONMENT, {}))
    # Dask lets workers return memory at once; to ask for it again takes half as long as the work.
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    # Read when the scheduler starts: more than three workers may be killed over one block.
    settings = {"distributed.scheduler.allowed-failures": _ALLOWED_FAILURES}
    with config.set(settings | {_ENVIRONMENT: environment}):
        return distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,  # what goes wrong is raised here
        )


def share(client, thing):
    """Give all workers what their tasks have in common."""
    # Functions of a user's script, as a recoverer, are known to this process only.
    job = import_optional("cloudpickle").dumps(thing)
    # A task of its own, not scattered data: if all workers that hold it die, it is run again.
    return client.submit(pickle.loads, job, pure=False, retries=RETRIES)
