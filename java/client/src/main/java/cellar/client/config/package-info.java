/** Clients that are configured by files. */
package cellar.client.config;
