"""Queries the health of a gRPC server with the client of the gRPC project.

  health_client.py check ADDRESS [SERVICE]   prints SERVING, NOT_SERVING, or the code of the error
  health_client.py watch ADDRESS [SERVICE]   prints each state, until the server ends the call
"""
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

what, address = sys.argv[1:3]
request = health_pb2.HealthCheckRequest(service=sys.argv[3] if len(sys.argv) > 3 else "")
stub = health_pb2_grpc.HealthStub(grpc.insecure_channel(address))


def name(response):
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)


try:
    if what == "check":
        print(name(stub.Check(request, timeout=10)))
    else:
        for response in stub.Watch(request, timeout=60):
            print(name(response), flush=True)
except grpc.RpcError as error:
    print(error.code().name)
