package org.apache.hadoop.hive.metastore;

import java.net.SocketException;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransportException;

/**
 * In the place of Hive's class of this name: Thrift now calls {@code accept}, and Hive's class has {@code acceptImpl}.
 * Without it the metastore never notices that a client's machine is gone, and keeps a thread for it.
 */
public class TServerSocketKeepAlive extends TServerSocket {
  public TServerSocketKeepAlive(TServerSocket listening) throws TTransportException {
    super(listening.getServerSocket());
  }

  @Override
  public TSocket accept() throws TTransportException {
    TSocket accepted = super.accept();
    try {
      accepted.getSocket().setKeepAlive(true);
    } catch (SocketException error) {
      throw new TTransportException(error);
    }
    return accepted;
  }
}
