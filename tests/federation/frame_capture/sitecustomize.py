"""Loaded by every Python that has this folder on its path: keeps a copy of every frame before it is encrypted and sent."""

import os

FOLDER = os.environ.get("COMT_TEST_FRAMES")

if FOLDER:
    from nvflare.fuel.f3.drivers import grpc_driver, socket_conn

    def keep(connection):
        send = connection.send_frame

        def send_frame(self, frame):
            with open(os.path.join(FOLDER, f"{os.getpid()}.frames"), "ab") as file:
                file.write(bytes(frame))
            return send(self, frame)

        connection.send_frame = send_frame

    keep(grpc_driver.StreamConnection)
    keep(socket_conn.SocketConnection)
