package org.apache.thrift.transport;

/**
 * Thrift moved this class in 0.14, and Hive 3.1 names it where it was. It is loaded, but not used: the metastore frames
 * nothing.
 */
public class TFramedTransport extends org.apache.thrift.transport.layered.TFramedTransport {
  public TFramedTransport(TTransport transport, int longest) throws TTransportException {
    super(transport, longest);
  }

  /** Hive's choice of a transport. */
  public static class Factory extends org.apache.thrift.transport.layered.TFramedTransport.Factory {}
}
